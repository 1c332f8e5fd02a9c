// Any lines are documents or an Error; each token has a mask of 0 or 1, and counting agrees with
// the masks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/byte_tokenizer.h"
#include "data/jsonl_source.h"

namespace {

void read_all(std::string_view lines, ng::ChatTemplate chat) {
  const ng::JsonlSource source(lines, "fuzz.jsonl", ng::ByteTokenizer(), {.chat = chat});
  std::vector<float> mask(static_cast<size_t>(source.tokens()));
  source.read_mask(0, mask);
  const auto ones = std::count(mask.begin(), mask.end(), 1.0f);
  const auto zeros = std::count(mask.begin(), mask.end(), 0.0f);
  if (ones + zeros != source.tokens() || source.has_mask() != (zeros > 0)) std::abort();
  if (source.targets(0, source.tokens()).tokens != ones) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto& [name, chat] : ng::kChatTemplates) {
    try {
      read_all({reinterpret_cast<const char*>(data), size}, chat);
    } catch (const ng::Error&) {
      continue;
    }
  }
  return 0;
}
