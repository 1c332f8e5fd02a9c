#include "data/masked_tokens.h"

#include <optional>

namespace ng {
namespace {

/// Whether each token's first byte lies in one of the spans, both ascending.
std::vector<uint8_t> mask_of(const std::vector<int64_t>& starts,
                             const std::vector<TextSpan>& spans) {
  std::vector<uint8_t> mask;
  mask.reserve(starts.size());
  auto span = spans.begin();
  for (const int64_t start : starts) {
    const auto at = static_cast<size_t>(start);
    while (span != spans.end() && span->last <= at) ++span;
    mask.push_back(span != spans.end() && span->first <= at ? 1 : 0);
  }
  return mask;
}

}  // namespace

void MaskedTokens::add(const Document& document, const Tokenizer& tokenizer) {
  const PlacedTokens tokens = tokenizer.encode_with_starts(document.text);
  const std::vector<uint8_t> mask = mask_of(tokens.starts, document.targets);
  ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
  is_target.insert(is_target.end(), mask.begin(), mask.end());
  if (const std::optional<int32_t> end = tokenizer.end_token(); document.ends && end) {
    ids.push_back(*end);
    is_target.push_back(1);
  }
}

}  // namespace ng
