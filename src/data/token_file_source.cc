#include "data/token_file_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "data/memory_source.h"

namespace ng {
namespace {

constexpr int64_t kChunk = 1 << 16;  // tokens read at once where all are

/// f(first, count) of the pieces of tokens [first, first + count).
void each_chunk(int64_t first, int64_t count, const std::function<void(int64_t, size_t)>& f) {
  for (int64_t done = 0; done < count; done += kChunk)
    f(first + done, static_cast<size_t>(std::min(kChunk, count - done)));
}

/// Ids as they are stored, from byte `begin` on.
template <class Stored>
void read_ids(const ReadFile& file, uint64_t begin, std::span<uint32_t> out) {
  constexpr size_t kPiece = 16384;
  std::vector<Stored> piece(std::min(kPiece, out.size()));
  for (size_t done = 0; done < out.size(); done += piece.size()) {
    piece.resize(std::min(piece.size(), out.size() - done));
    file.read(begin + done * sizeof(Stored), std::as_writable_bytes(std::span(piece)));
    const auto id_of = [](Stored id) {
      return static_cast<uint32_t>(std::min<uint64_t>(id, UINT32_MAX));
    };
    std::transform(piece.begin(), piece.end(), out.begin() + static_cast<int64_t>(done), id_of);
  }
}

/// Faster than a search for a certain id.
int64_t largest(std::span<const uint32_t> ids) {
  uint32_t most = 0;
  for (const uint32_t id : ids) most = std::max(most, id);
  return most;
}

/// A token's id, also where 32 bits do not hold it or it is below 0.
std::string stored_id(const ReadFile& file, const TokenFileLayout& layout, int64_t token) {
  const auto width = static_cast<size_t>(layout.width);
  uint64_t bits = 0;
  file.read(layout.first + static_cast<uint64_t>(token) * width,
            std::as_writable_bytes(std::span(&bits, 1)).first(width));
  if (!layout.is_signed) return fmt::format("{}", bits);
  const size_t unused = 8 * (sizeof(bits) - width);
  return fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
}

/// How many of tokens [first, first + count) have a mask of 1.
int64_t ones_of_mask(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                     int64_t count) {
  if (count == 0) return 0;
  const auto begin = static_cast<uint64_t>(first), last = static_cast<uint64_t>(first + count - 1);
  const size_t bytes = last / 8 - begin / 8 + 1;
  std::vector<uint64_t> words((bytes + 7) / 8);
  const std::span<std::byte> mask = std::as_writable_bytes(std::span(words)).first(bytes);
  file.read(*layout.mask + begin / 8, mask);
  mask.front() &= static_cast<std::byte>(0xFF << (begin % 8));
  mask.back() &= static_cast<std::byte>(0xFF >> (7 - last % 8));
  int64_t targets = 0;
  for (const uint64_t word : words) targets += std::popcount(word);
  return targets;
}

}  // namespace

TokenFileLayout token_layout_of(const ReadFile& file, bool bare_uint16) {
  std::string begin(std::min<uint64_t>(file.size(), kTokenHeaderBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return parse_token_layout(begin, file.size(), bare_uint16, file.path());
}

void read_token_ids(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                    std::span<uint32_t> out) {
  if (out.empty()) return;
  const auto width = static_cast<size_t>(layout.width);
  const uint64_t begin = layout.first + static_cast<uint64_t>(first) * width;
  switch (layout.width) {
    case 1:
      return read_ids<uint8_t>(file, begin, out);
    case 2:
      return read_ids<uint16_t>(file, begin, out);
    case 4:
      return read_ids<uint32_t>(file, begin, out);
    default:
      return read_ids<uint64_t>(file, begin, out);
  }
}

void read_token_mask(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                     std::span<uint8_t> out) {
  NG_CHECK(layout.mask, file.path());
  if (out.empty()) return;
  const uint64_t begin = static_cast<uint64_t>(first) / 8;
  const uint64_t end = (static_cast<uint64_t>(first) + out.size() - 1) / 8 + 1;
  std::vector<uint8_t> bits(end - begin);
  file.read(*layout.mask + begin, std::as_writable_bytes(std::span(bits)));
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t token = static_cast<uint64_t>(first) + i;
    out[i] = static_cast<uint8_t>(bits[token / 8 - begin] >> (token % 8) & 1);
  }
}

void require_ids_below(int64_t vocab, const ReadFile& file, const TokenFileLayout& layout,
                       int64_t first, std::span<const uint32_t> ids, const std::string& remedy) {
  if (largest(ids) < vocab) return;
  const auto foreign =
      std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return int64_t{id} >= vocab; });
  const int64_t token = first + (foreign - ids.begin());
  throw Error({.place = file.path(),
               .key = fmt::format("token {}", token),
               .problem = fmt::format("id {}", stored_id(file, layout, token)),
               .remedy = remedy});
}

TokenFileSource::TokenFileSource(const std::string& path, bool bare_uint16,
                                 const Tokenizer& tokenizer)
    : file_(path),
      layout_(token_layout_of(file_, bare_uint16)),
      bytes_of_id_(text_bytes_by_id(tokenizer)),
      remedy_(fmt::format("ids below {}, which the tokenizer \"{}\" has, or the tokenizer of the "
                          "file",
                          tokenizer.vocab(), tokenizer.name())),
      end_token_(tokenizer.end_token()) {
  constexpr int64_t kPiece = 16 * kChunk;
  if (!layout_.mask) return;
  for (int64_t at = 0; at < tokens() && !has_mask_; at += kPiece) {
    const int64_t count = std::min(kPiece, tokens() - at);
    has_mask_ = ones_of_mask(file_, layout_, at, count) < count;
  }
}

void TokenFileSource::read_known_ids(int64_t first, std::span<uint32_t> out) const {
  read_token_ids(file_, layout_, first, out);
  require_ids_below(std::ssize(bytes_of_id_), file_, layout_, first, out, remedy_);
}

void TokenFileSource::read(int64_t first, std::span<int32_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  read_known_ids(first, {reinterpret_cast<uint32_t*>(out.data()), out.size()});
}

void TokenFileSource::read_mask(int64_t first, std::span<float> out) const {
  if (!has_mask_) return TokenSource::read_mask(first, out);
  require_tokens(*this, first, std::ssize(out));
  std::vector<uint8_t> mask(out.size());
  read_token_mask(file_, layout_, first, mask);
  std::copy(mask.begin(), mask.end(), out.begin());
}

void TokenFileSource::read_begins(int64_t first, std::span<uint8_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::fill(out.begin(), out.end(), 0);
  if (out.empty()) return;
  if (first == 0) out.front() = 1;
  const int64_t before = std::max<int64_t>(first - 1, 0);  // a document begins behind an end token
  std::vector<uint32_t> ids(static_cast<size_t>(first + std::ssize(out) - 1 - before));
  read_token_ids(file_, layout_, before, ids);
  for (size_t i = 0; i < ids.size(); ++i)
    if (end_token_ && ids[i] == static_cast<uint32_t>(*end_token_))
      out[static_cast<size_t>(before - first + 1) + i] = 1;
}

int64_t TokenFileSource::target_tokens(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  if (!has_mask_) return count;
  int64_t targets = 0;
  each_chunk(first, count, [&](int64_t at, size_t of_chunk) {
    targets += ones_of_mask(file_, layout_, at, static_cast<int64_t>(of_chunk));
  });
  return targets;
}

int64_t TokenFileSource::target_bytes(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  int64_t bytes = 0;
  std::vector<uint32_t> ids(kChunk);
  std::vector<uint8_t> mask(kChunk, 1);
  each_chunk(first, count, [&](int64_t at, size_t of_chunk) {
    read_known_ids(at, std::span(ids).first(of_chunk));
    if (has_mask_) read_token_mask(file_, layout_, at, std::span(mask).first(of_chunk));
    for (size_t i = 0; i < of_chunk; ++i) bytes += mask[i] * bytes_of_id_[ids[i]];
  });
  return bytes;
}

void TokenFileSource::add_to(Checksum& checksum, int64_t first, size_t count) const {
  std::vector<uint32_t> ids(count);
  read_token_ids(file_, layout_, first, ids);
  checksum.add(std::as_bytes(std::span(ids)));
  if (!layout_.mask) return;
  std::vector<uint8_t> mask(count);
  read_token_mask(file_, layout_, first, mask);
  checksum.add(std::as_bytes(std::span(mask)));
}

std::string TokenFileSource::checksum() const {
  constexpr int64_t kPieces = 256, kPiece = 1 << 14;
  const int64_t all = tokens();
  if (all <= kTokensOfChecksum) return older_checksum();
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&all, 1)));
  for (int64_t i = 0; i < kPieces; ++i)  // the first begins the file, the last ends it
    add_to(checksum, (all - kPiece) * i / (kPieces - 1), kPiece);
  return checksum.hex();
}

std::string TokenFileSource::older_checksum() const {
  Checksum checksum;
  each_chunk(0, tokens(), [&](int64_t first, size_t count) { add_to(checksum, first, count); });
  return checksum.hex();
}

}  // namespace ng
