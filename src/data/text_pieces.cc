#include "data/text_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ng {

TextPieces::TextPieces(std::shared_ptr<const TokenSource> source, std::vector<TextPiece> pieces)
    : source_(std::move(source)), pieces_(std::move(pieces)) {
  for (const TextPiece& piece : pieces_) {
    begins_.push_back(tokens_);
    tokens_ += piece.count;
  }
}

void TextPieces::each_stretch(int64_t first, int64_t count,
                              const std::function<void(const Stretch&)>& act) const {
  NG_CHECK(first >= 0 && count >= 0 && first + count <= tokens_, first, count, tokens_);
  if (count == 0) return;
  auto i = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) -
                               begins_.begin() - 1);
  for (int64_t done = 0; done < count; ++i) {
    const int64_t skipped = first + done - begins_[i];
    const int64_t here = std::min(pieces_[i].count - skipped, count - done);
    if (here > 0)
      act({.from = pieces_[i].first + skipped,
           .at = static_cast<size_t>(done),
           .count = static_cast<size_t>(here),
           .begins_piece = skipped == 0});
    done += here;
  }
}

void TextPieces::read(int64_t first, std::span<int32_t> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    source_->read(stretch.from, out.subspan(stretch.at, stretch.count));
  });
}

void TextPieces::read_mask(int64_t first, std::span<float> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    source_->read_mask(stretch.from, out.subspan(stretch.at, stretch.count));
  });
}

void TextPieces::read_begins(int64_t first, std::span<uint8_t> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    source_->read_begins(stretch.from, out.subspan(stretch.at, stretch.count));
    if (stretch.begins_piece) out[stretch.at] = 1;
  });
}

int64_t TextPieces::targets() const {
  int64_t targets = 0;
  for (const TextPiece& piece : pieces_) {
    const int64_t unpredicted = &piece == &pieces_.front() ? std::min<int64_t>(piece.count, 1) : 0;
    targets += source_->target_tokens(piece.first + unpredicted, piece.count - unpredicted);
  }
  return targets;
}

int64_t TextPieces::targets_within_pieces() const {
  int64_t targets = 0;
  for (const TextPiece& piece : pieces_)
    if (piece.count > 1) targets += source_->target_tokens(piece.first + 1, piece.count - 1);
  return targets;
}

int64_t TextPieces::bytes_within_pieces() const {
  int64_t bytes = 0;
  for (const TextPiece& piece : pieces_)
    if (piece.count > 1) bytes += source_->target_bytes(piece.first + 1, piece.count - 1);
  return bytes;
}

std::string TextPieces::places() const {
  std::string places;
  for (const TextPiece& piece : pieces_) places += fmt::format(" {} {}", piece.first, piece.count);
  return places;
}

}  // namespace ng
