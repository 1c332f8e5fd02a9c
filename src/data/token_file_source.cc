#include "data/token_file_source.h"

#include <fmt/format.h>

#include <algorithm>
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

/// Of at least one id; the search for one takes several times as long.
int64_t largest(std::span<const uint32_t> ids) {
  uint32_t most = 0;
  for (const uint32_t id : ids) most = std::max(most, id);
  return most;
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

TokenFileSource::TokenFileSource(const std::string& path, bool bare_uint16,
                                 const Tokenizer& tokenizer, const BytesRead& progress)
    : file_(path),
      layout_(token_layout_of(file_, bare_uint16)),
      bytes_of_id_(text_bytes_by_id(tokenizer)),
      end_token_(tokenizer.end_token()) {
  read_whole(tokenizer, progress);
}

void TokenFileSource::read_whole(const Tokenizer& tokenizer, const BytesRead& progress) {
  const int64_t vocab = tokenizer.vocab();
  Checksum checksum;
  std::vector<uint32_t> ids(kChunk);
  std::vector<uint8_t> mask(kChunk);
  each_chunk(0, tokens(), [&](int64_t first, size_t count) {
    const std::span<uint32_t> chunk = std::span(ids).first(count);
    read_token_ids(file_, layout_, first, chunk);
    checksum.add(std::as_bytes(chunk));
    if (largest(chunk) >= vocab) {
      const auto foreign = std::find_if(chunk.begin(), chunk.end(),
                                        [&](uint32_t id) { return int64_t{id} >= vocab; });
      throw Error({.place = file_.path(),
                   .key = fmt::format("token {}", first + (foreign - chunk.begin())),
                   .problem = fmt::format("id {}", *foreign),
                   .remedy = fmt::format("ids below {}, which the tokenizer \"{}\" has, or the "
                                         "tokenizer of the file",
                                         vocab, tokenizer.name())});
    }
    if (progress) progress((first + std::ssize(chunk)) * layout_.width);
    if (!layout_.mask) return;
    const std::span<uint8_t> bits = std::span(mask).first(count);
    read_token_mask(file_, layout_, first, bits);
    checksum.add(std::as_bytes(bits));
    has_mask_ = has_mask_ || std::find(bits.begin(), bits.end(), 0) != bits.end();
  });
  checksum_ = checksum.hex();
}

void TokenFileSource::read(int64_t first, std::span<int32_t> out) const {
  require_tokens(*this, first, std::ssize(out));
  read_token_ids(file_, layout_, first, {reinterpret_cast<uint32_t*>(out.data()), out.size()});
}

void TokenFileSource::read_mask(int64_t first, std::span<float> out) const {
  require_tokens(*this, first, std::ssize(out));
  if (!has_mask_) {
    std::fill(out.begin(), out.end(), 1.0f);
    return;
  }
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
  std::vector<uint8_t> mask(kChunk);
  each_chunk(first, count, [&](int64_t at, size_t of_chunk) {
    const std::span<uint8_t> bits = std::span(mask).first(of_chunk);
    read_token_mask(file_, layout_, at, bits);
    targets += std::count(bits.begin(), bits.end(), 1);
  });
  return targets;
}

int64_t TokenFileSource::target_bytes(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  int64_t bytes = 0;
  std::vector<uint32_t> ids(kChunk);
  std::vector<uint8_t> mask(kChunk, 1);
  each_chunk(first, count, [&](int64_t at, size_t of_chunk) {
    read_token_ids(file_, layout_, at, std::span(ids).first(of_chunk));
    if (has_mask_) read_token_mask(file_, layout_, at, std::span(mask).first(of_chunk));
    for (size_t i = 0; i < of_chunk; ++i) bytes += mask[i] * bytes_of_id_[ids[i]];
  });
  return bytes;
}

}  // namespace ng
