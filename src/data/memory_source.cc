#include "data/memory_source.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"

namespace ng {
namespace {

std::vector<int64_t> bytes_by_id(const Tokenizer& tokenizer) {
  std::vector<int64_t> bytes;
  for (int64_t id = 0; id < tokenizer.vocab(); ++id)
    bytes.push_back(tokenizer.text_bytes(static_cast<int32_t>(id)));
  return bytes;
}

}  // namespace

MemorySource::MemorySource(MaskedTokens tokens, const Tokenizer& tokenizer)
    : tokens_(std::move(tokens)), bytes_of_id_(bytes_by_id(tokenizer)) {
  const std::vector<uint8_t>& mask = tokens_.is_target;
  has_mask_ = std::find(mask.begin(), mask.end(), 0) != mask.end();
}

bool MemorySource::holds(int64_t first, int64_t count) const {
  return first >= 0 && count >= 0 && first + count <= tokens();
}

void MemorySource::read(int64_t first, std::span<int32_t> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(tokens_.ids.begin() + first, out.size(), out.begin());
}

void MemorySource::read_mask(int64_t first, std::span<float> out) const {
  NG_CHECK(holds(first, std::ssize(out)), first, out.size(), tokens());
  std::copy_n(tokens_.is_target.begin() + first, out.size(), out.begin());
}

TargetCount MemorySource::targets(int64_t first, int64_t count) const {
  NG_CHECK(holds(first, count), first, count, tokens());
  TargetCount counted;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + count); ++i) {
    if (tokens_.is_target[i] == 0) continue;
    ++counted.tokens;
    counted.bytes += bytes_of_id_[static_cast<size_t>(tokens_.ids[i])];
  }
  return counted;
}

std::string MemorySource::checksum() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(tokens_.ids)));
  checksum.add(std::as_bytes(std::span(tokens_.is_target)));
  return checksum.hex();
}

}  // namespace ng
