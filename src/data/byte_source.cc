#include "data/byte_source.h"

#include <algorithm>

#include "base/checksum.h"

namespace ng {

ByteSource::ByteSource(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    ReadFile file(path);
    const int64_t bytes = static_cast<int64_t>(file.size());
    if (bytes == 0) continue;
    pieces_.push_back({.file = std::move(file), .first = tokens_});
    tokens_ += bytes;
  }
}

void ByteSource::read(int64_t first, std::span<int32_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  if (out.empty()) return;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](int64_t at, const Piece& p) { return at < p.first; });
  --piece;
  // The bytes land in the last quarter of `out` and are widened from the front: value i overwrites
  // bytes 4i ... 4i+3 of it, none of which holds a byte still to be read.
  const std::span<std::byte> bytes = std::as_writable_bytes(out).last(out.size());
  for (size_t done = 0; done < out.size(); ++piece) {
    const uint64_t offset =
        static_cast<uint64_t>(first) + done - static_cast<uint64_t>(piece->first);
    const size_t count = std::min<size_t>(out.size() - done, piece->file.size() - offset);
    piece->file.read(offset, bytes.subspan(done, count));
    done += count;
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::to_integer<int32_t>(bytes[i]);
}

void ByteSource::read_begins(int64_t first, std::span<uint8_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::fill(out.begin(), out.end(), 0);
  for (const Piece& piece : pieces_)
    if (piece.first >= first && piece.first < first + std::ssize(out))
      out[static_cast<size_t>(piece.first - first)] = 1;
}

int64_t ByteSource::target_bytes(int64_t first, int64_t count) const {
  return target_tokens(first, count);
}

std::string ByteSource::checksum() const {
  constexpr uint64_t kChunk = 1 << 20;
  std::vector<std::byte> chunk(
      static_cast<size_t>(std::min<uint64_t>(kChunk, static_cast<uint64_t>(tokens_))));
  Checksum checksum;
  for (const Piece& piece : pieces_) {
    for (uint64_t offset = 0; offset < piece.file.size(); offset += chunk.size()) {
      const std::span<std::byte> part =
          std::span(chunk).first(std::min<size_t>(chunk.size(), piece.file.size() - offset));
      piece.file.read(offset, part);
      checksum.add(part);
    }
  }
  return checksum.hex();
}

}  // namespace ng
