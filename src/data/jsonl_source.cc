#include "data/jsonl_source.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "data/jsonl_lines.h"

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

}  // namespace

JsonlSource::JsonlSource(std::string_view content, const std::string& path,
                         const Tokenizer& tokenizer, const DocumentRules& rules)
    : bytes_of_id_(bytes_by_id(tokenizer)) {
  for_each_line(content, path, [&](std::string_view line, const std::string& place) {
    tokens_.add(read_document(line, rules, tokenizer.bos(), place), tokenizer);
  });
  const std::vector<uint8_t>& mask = tokens_.is_target;
  has_mask_ = std::find(mask.begin(), mask.end(), 0) != mask.end();
}

bool JsonlSource::holds(int64_t first, int64_t count) const {
  return first >= 0 && count >= 0 && first + count <= tokens();
}

void JsonlSource::read(int64_t first, std::span<int32_t> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(tokens_.ids.begin() + first, out.size(), out.begin());
}

void JsonlSource::read_mask(int64_t first, std::span<float> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(tokens_.is_target.begin() + first, out.size(), out.begin());
}

TargetCount JsonlSource::targets(int64_t first, int64_t count) const {
  NG_CHECK(holds(first, count), first, count, tokens());
  TargetCount counted;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + count); ++i) {
    if (tokens_.is_target[i] == 0) continue;
    ++counted.tokens;
    counted.bytes += bytes_of_id_[static_cast<size_t>(tokens_.ids[i])];
  }
  return counted;
}

std::string JsonlSource::checksum() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(tokens_.ids)));
  checksum.add(std::as_bytes(std::span(tokens_.is_target)));
  return checksum.hex();
}

}  // namespace ng
