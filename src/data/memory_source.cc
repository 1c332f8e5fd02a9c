#include "data/memory_source.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"

namespace ng {

std::vector<int64_t> text_bytes_by_id(const Tokenizer& tokenizer) {
  std::vector<int64_t> bytes;
  for (int64_t id = 0; id < tokenizer.vocab(); ++id)
    bytes.push_back(tokenizer.text_bytes(static_cast<int32_t>(id)));
  return bytes;
}

MemorySource::MemorySource(MaskedTokens tokens, std::vector<int64_t> bytes_of_id)
    : tokens_(std::move(tokens)), bytes_of_id_(std::move(bytes_of_id)) {
  const std::vector<uint8_t>& mask = tokens_.is_target;
  has_mask_ = std::find(mask.begin(), mask.end(), 0) != mask.end();
}

void MemorySource::read(int64_t first, std::span<int32_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::copy_n(tokens_.ids.begin() + first, out.size(), out.begin());
}

void MemorySource::read_mask(int64_t first, std::span<float> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::copy_n(tokens_.is_target.begin() + first, out.size(), out.begin());
}

void MemorySource::read_begins(int64_t first, std::span<uint8_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::fill(out.begin(), out.end(), 0);
  const std::vector<int64_t>& begins = tokens_.begins;
  auto begin = std::lower_bound(begins.begin(), begins.end(), first);
  for (; begin != begins.end() && *begin < first + std::ssize(out); ++begin)
    out[static_cast<size_t>(*begin - first)] = 1;
}

int64_t MemorySource::target_tokens(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  const auto begin = tokens_.is_target.begin() + first;
  return std::count(begin, begin + count, 1);
}

int64_t MemorySource::target_bytes(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  int64_t bytes = 0;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + count); ++i)
    if (tokens_.is_target[i] != 0) bytes += bytes_of_id_[static_cast<size_t>(tokens_.ids[i])];
  return bytes;
}

std::string MemorySource::checksum() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(tokens_.ids)));
  checksum.add(std::as_bytes(std::span(tokens_.is_target)));
  return checksum.hex();
}

}  // namespace ng
