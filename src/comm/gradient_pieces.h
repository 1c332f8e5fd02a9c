// What of one gradient travels to whom: pieces of a list cover its rows in order; a rank may own
// several, or none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/partition.h"
#include "tensor/view.h"

namespace ng {

/// One piece for each rank, in their order, as even as the blocks of the cast allow.
[[nodiscard]] std::vector<Piece> even_pieces(const Operand& cast, int64_t rows, int ranks);

/// Whether ranks encode by one scale that they agree on, so that codes alone can be added up. Casts
/// without it travel with the scales of each rank.
[[nodiscard]] bool ranks_share_scale(const Operand& cast);

/// What of a tensor stored by `cast` goes to `owner`: the elements of its pieces, rows packed one
/// after another, and their scales, those of the whole tensor last. Views lie in host memory.
[[nodiscard]] size_t element_bytes(const ConstView& x, std::span<const Piece> pieces, int owner);
[[nodiscard]] size_t scale_bytes(const ConstView& x, std::span<const Piece> pieces, int owner);
void append_elements(const ConstView& x, std::span<const Piece> pieces, int owner,
                     std::vector<std::byte>& out);
void append_scales(const ConstView& x, std::span<const Piece> pieces, int owner,
                   std::vector<std::byte>& out);

/// What every rank sent to this one, one after another.
struct Inbox {
  std::vector<std::byte> bytes;
  std::vector<size_t> sizes;
  [[nodiscard]] std::span<const std::byte> of(size_t rank) const {
    size_t first = 0;
    for (size_t i = 0; i < rank; ++i) first += sizes[i];
    return std::span(bytes).subspan(first, sizes[rank]);
  }
};

/// A piece as it came in: a tensor of its own over those bytes.
struct ReceivedPiece {
  ConstView view;   ///< without the second level of its scales, whose place may be no float's
  float level = 1;  ///< that second level
};
/// The pieces of `owner` in the bytes of the two above. `like` says element, columns and how scales
/// lie.
[[nodiscard]] std::vector<ReceivedPiece> received_pieces(const ConstView& like,
                                                         std::span<const Piece> pieces, int owner,
                                                         std::span<const std::byte> elements,
                                                         std::span<const std::byte> scales);

/// Rows of a tensor with their scales. `first` begins a block.
template <class Byte>
[[nodiscard]] BasicView<Byte> rows_of(const BasicView<Byte>& x, const Piece& piece) {
  BasicView<Byte> part = x;
  part.rows = piece.rows;
  part.data += bytes_of(*x.element, piece.first_row * x.stride);
  if (x.has_scales())
    part.scales.data += bytes_of(*x.scales.element, x.scale_index(piece.first_row, 0));
  return part;
}

}  // namespace ng
