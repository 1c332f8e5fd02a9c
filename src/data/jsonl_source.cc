#include "data/jsonl_source.h"

#include <algorithm>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"

namespace ng {
namespace {

/// Bytes of text behind every id; none behind the end token.
std::vector<int64_t> bytes_by_id(const Tokenizer& tokenizer) {
  std::vector<int64_t> bytes;
  for (int64_t id = 0; id < tokenizer.vocab(); ++id) {
    const auto token = static_cast<int32_t>(id);
    const bool is_text = token != tokenizer.end_token();
    bytes.push_back(is_text ? std::ssize(tokenizer.decode(std::span(&token, 1))) : 0);
  }
  return bytes;
}

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

bool is_jsonl(std::string_view path) { return path.ends_with(".jsonl"); }

JsonlSource::JsonlSource(std::string_view content, const std::string& path,
                         const Tokenizer& tokenizer, const DocumentRules& rules)
    : bytes_of_id_(bytes_by_id(tokenizer)) {
  int64_t number = 1;
  for (size_t begin = 0; begin < content.size(); ++number) {
    const std::string_view line = content.substr(begin, content.find('\n', begin) - begin);
    begin += line.size() + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    add(read_document(line, rules, tokenizer.bos(), fmt::format("{}:{}", path, number)), tokenizer);
  }
  has_mask_ = std::find(is_target_.begin(), is_target_.end(), 0) != is_target_.end();
}

void JsonlSource::add(const Document& document, const Tokenizer& tokenizer) {
  const PlacedTokens tokens = tokenizer.encode_with_starts(document.text);
  const std::vector<uint8_t> mask = mask_of(tokens.starts, document.targets);
  ids_.insert(ids_.end(), tokens.ids.begin(), tokens.ids.end());
  is_target_.insert(is_target_.end(), mask.begin(), mask.end());
  if (const std::optional<int32_t> end = tokenizer.end_token(); document.ends && end) {
    ids_.push_back(*end);
    is_target_.push_back(1);
  }
}

bool JsonlSource::holds(int64_t first, int64_t count) const {
  return first >= 0 && count >= 0 && first + count <= tokens();
}

void JsonlSource::read(int64_t first, std::span<int32_t> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(ids_.begin() + first, out.size(), out.begin());
}

void JsonlSource::read_mask(int64_t first, std::span<float> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(is_target_.begin() + first, out.size(), out.begin());
}

TargetCount JsonlSource::targets(int64_t first, int64_t count) const {
  NG_CHECK(holds(first, count), first, count, tokens());
  TargetCount counted;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + count); ++i) {
    if (is_target_[i] == 0) continue;
    ++counted.tokens;
    counted.bytes += bytes_of_id_[static_cast<size_t>(ids_[i])];
  }
  return counted;
}

std::string JsonlSource::checksum() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(ids_)));
  checksum.add(std::as_bytes(std::span(is_target_)));
  return checksum.hex();
}

}  // namespace ng
