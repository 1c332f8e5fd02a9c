#include "comm/gradient_pieces.h"

#include <algorithm>
#include <cstring>

#include "backend/gradient_scale.h"

namespace ng {
namespace {

bool is_one_block(const ConstView& x) { return x.scales.block.kind == Block::Kind::tensor; }

/// Scales of a piece; none where all of the tensor has one.
size_t own_scale_bytes(const ConstView& x, int64_t rows) {
  if (!x.has_scales() || is_one_block(x)) return 0;
  ConstView piece = x;
  piece.rows = rows;
  const int64_t last = piece.scale_index(rows - 1, x.cols - 1);
  return bytes_of(*x.scales.element, last + 1);
}

/// Scales that all pieces share: of the one block, and the second level.
size_t common_scale_bytes(const ConstView& x) {
  if (!x.has_scales()) return 0;
  return (is_one_block(x) ? bytes_of(*x.scales.element, 1) : 0) +
         (x.scales.tensor != nullptr ? sizeof(float) : 0);
}

int64_t row_stride(const ConstView& x) { return tight_stride(*x.element, x.cols); }
size_t row_bytes(const ConstView& x) { return bytes_of(*x.element, row_stride(x)); }

template <class Use>
void for_pieces(std::span<const Piece> pieces, int owner, const Use& use) {
  for (const Piece& piece : pieces)
    if (piece.owner == owner && piece.rows > 0) use(piece);
}

void append(const void* from, size_t bytes, std::vector<std::byte>& out) {
  const auto* first = static_cast<const std::byte*>(from);
  out.insert(out.end(), first, first + bytes);
}

}  // namespace

std::vector<Piece> even_pieces(const Operand& cast, int64_t rows, int ranks) {
  const int64_t block = cast.block.kind == Block::Kind::tile ? cast.block.rows : 1;
  const int64_t blocks = (rows + block - 1) / block;
  std::vector<Piece> pieces;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto begin = [&](int64_t at) { return std::min(rows, blocks * at / ranks * block); };
    pieces.push_back(
        {.first_row = begin(rank), .rows = begin(rank + 1) - begin(rank), .owner = rank});
  }
  return pieces;
}

bool ranks_share_scale(const Operand& cast) { return has_one_float_scale(cast); }

size_t element_bytes(const ConstView& x, std::span<const Piece> pieces, int owner) {
  size_t bytes = 0;
  for_pieces(pieces, owner,
             [&](const Piece& piece) { bytes += static_cast<size_t>(piece.rows) * row_bytes(x); });
  return bytes;
}

size_t scale_bytes(const ConstView& x, std::span<const Piece> pieces, int owner) {
  size_t bytes = 0;
  bool has_pieces = false;
  for_pieces(pieces, owner, [&](const Piece& piece) {
    bytes += own_scale_bytes(x, piece.rows);
    has_pieces = true;
  });
  return has_pieces ? bytes + common_scale_bytes(x) : 0;
}

void append_elements(const ConstView& x, std::span<const Piece> pieces, int owner,
                     std::vector<std::byte>& out) {
  for_pieces(pieces, owner, [&](const Piece& piece) {
    for (int64_t r = piece.first_row; r < piece.first_row + piece.rows; ++r)
      append(x.data + bytes_of(*x.element, r * x.stride), row_bytes(x), out);
  });
}

void append_scales(const ConstView& x, std::span<const Piece> pieces, int owner,
                   std::vector<std::byte>& out) {
  if (scale_bytes(x, pieces, owner) == 0) return;
  for_pieces(pieces, owner, [&](const Piece& piece) {
    append(rows_of(x, piece).scales.data, own_scale_bytes(x, piece.rows), out);
  });
  if (is_one_block(x)) append(x.scales.data, bytes_of(*x.scales.element, 1), out);
  if (x.scales.tensor != nullptr) append(x.scales.tensor, sizeof(float), out);
}

std::vector<ReceivedPiece> received_pieces(const ConstView& like, std::span<const Piece> pieces,
                                           int owner, std::span<const std::byte> elements,
                                           std::span<const std::byte> scales) {
  std::vector<ReceivedPiece> received;
  if (elements.empty()) return received;
  const std::byte* const common = scales.data() + scales.size() - common_scale_bytes(like);
  for_pieces(pieces, owner, [&](const Piece& piece) {
    ReceivedPiece& it = received.emplace_back();
    it.view = {elements.data(), *like.element, piece.rows, like.cols, row_stride(like)};
    elements = elements.subspan(static_cast<size_t>(piece.rows) * row_bytes(like));
    if (!like.has_scales()) return;
    it.view.scales = {is_one_block(like) ? common : scales.data(), like.scales.element,
                      like.scales.block};
    scales = scales.subspan(own_scale_bytes(like, piece.rows));
    if (like.scales.tensor != nullptr)
      std::memcpy(&it.level, common + common_scale_bytes(like) - sizeof(float), sizeof(float));
  });
  return received;
}

}  // namespace ng
