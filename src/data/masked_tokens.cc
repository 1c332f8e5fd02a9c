#include "data/masked_tokens.h"

#include <optional>

#include "base/files.h"
#include "data/jsonl_lines.h"

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

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

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

MaskedTokens tokens_of_jsonl(std::string_view content, const std::string& path,
                             const Tokenizer& tokenizer, const DocumentRules& rules) {
  MaskedTokens tokens;
  for_each_line(content, path, [&](std::string_view line, const std::string& place) {
    tokens.add(read_document(line, rules, tokenizer.bos(), place), tokenizer);
  });
  return tokens;
}

MaskedTokens tokens_of_texts(const std::vector<std::string>& paths, const Tokenizer& tokenizer) {
  MaskedTokens tokens;
  for (const std::string& path : paths) {
    const MappedFile file(path);
    const std::vector<int32_t> ids = tokenizer.encode(text_of(file));
    tokens.ids.insert(tokens.ids.end(), ids.begin(), ids.end());
  }
  tokens.is_target.assign(tokens.ids.size(), 1);
  return tokens;
}

}  // namespace ng
