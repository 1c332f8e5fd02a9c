// Any lines are documents or an Error, and pairs or an Error; each token has a mask of 0 or 1, and
// counting agrees with the masks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/memory_source.h"
#include "data/preference_pairs.h"
#include "tokenizer/byte_tokenizer.h"

namespace {

void read_all(std::string_view lines, ng::ChatTemplate chat) {
  const ng::ByteTokenizer tokenizer;
  const ng::MemorySource source(ng::tokens_of_jsonl(lines, "fuzz.jsonl", tokenizer, {.chat = chat}),
                                tokenizer);
  std::vector<float> mask(static_cast<size_t>(source.tokens()));
  source.read_mask(0, mask);
  const auto ones = std::count(mask.begin(), mask.end(), 1.0f);
  const auto zeros = std::count(mask.begin(), mask.end(), 0.0f);
  if (ones + zeros != source.tokens() || source.has_mask() != (zeros > 0)) std::abort();
  if (source.target_tokens(0, source.tokens()) != ones) std::abort();
}

void read_pairs(std::string_view lines, ng::ChatTemplate chat) {
  constexpr int64_t kContext = 8;
  ng::PreferencePairs pairs("fuzz.toml");
  pairs.add(lines, "fuzz.jsonl", ng::ByteTokenizer(), {.chat = chat});
  pairs.cut(pairs.pairs());
  pairs.require_length(kContext);
  pairs.cut(0);
  const ng::SequenceRange range{
      .first = 0, .count = pairs.validation_windows(kContext), .context = kContext};
  std::vector<int32_t> inputs(static_cast<size_t>(range.count * kContext)), targets(inputs);
  std::vector<float> mask(inputs.size());
  const int64_t counted = pairs.validation_batch(range, {inputs, targets, mask});
  for (int64_t i = 0; i < range.count; ++i) {  // each has a completion
    const auto begin = mask.begin() + i * kContext;
    if (std::count(begin, begin + kContext, 1.0f) == 0) std::abort();
  }
  if (std::count(mask.begin(), mask.end(), 1.0f) != counted) std::abort();
}

template <class Read>
void attempt(const Read& read, const uint8_t* data, size_t size, ng::ChatTemplate chat) {
  try {
    read({reinterpret_cast<const char*>(data), size}, chat);
  } catch (const ng::Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto& [name, chat] : ng::kChatTemplates) {
    attempt(read_all, data, size, chat);
    attempt(read_pairs, data, size, chat);
  }
  return 0;
}
