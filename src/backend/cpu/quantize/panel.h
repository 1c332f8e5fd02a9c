// Panels of an operand: their amax, or their scales, elements and flags.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/quantize/job.h"

namespace ng::cpu {

/// Calls body(piece) for the pieces of rows [row, row + rows) × [k, k + cols), tile rows whole or
/// cut, never mixed with a part of the next.
template <class Body>
void for_pieces(const QuantizePlan& plan, const Piece& area, const Body& body) {
  for (int64_t r = 0; r < area.rows;) {
    int64_t end = std::min(r + plan.piece_rows, area.rows);
    if (plan.piece_rows < plan.tile_rows)
      end = std::min(end, (r / plan.tile_rows + 1) * plan.tile_rows);
    for (int64_t c = 0; c < area.cols; c += plan.piece_cols)
      body(Piece{.row = area.row + r,
                 .rows = end - r,
                 .k = area.k + c,
                 .cols = std::min(plan.piece_cols, area.cols - c)});
    r = end;
  }
}

/// Adds the largest |value| of a piece to the worker's totals.
void note_amax(const TileValues& values, int64_t rows, int64_t cols, QuantizeTotals& totals);

/// The walk of one worker over panels.
class PanelEncoder {
 public:
  PanelEncoder(const QuantizeJob& job, std::span<std::byte> memory, QuantizeTotals& totals)
      : job_(job), scratch_(quantize_scratch(job.plan, memory)), totals_(totals) {}

  /// An area of the operand that begins and ends with whole panels, blocks and transforms, or with
  /// the operand.
  void encode(const Piece& area);
  /// Adds the largest |value| after the transform of such an area to the worker's totals.
  void note_amax(const Piece& area);
  /// The same by regions of the second level, into their scales, of the panel from `row` on.
  void note_regions(int64_t row);
  /// In place of encode(): what of a product `op` lets through, of the rows from `row` on.
  void pass_back(int64_t row, const RoundingBackward& op, const GradientFactor& factor);

 private:
  [[nodiscard]] bool chunk_is_one_piece() const {
    return chunk_.rows <= job_.plan.piece_rows && chunk_.cols <= job_.plan.piece_cols;
  }
  [[nodiscard]] int64_t tile_rows_of_chunk() const;
  /// Offset of a piece's first block in amax, decode and multiplier.
  [[nodiscard]] int64_t first_block(const Piece& piece) const {
    return (piece.row - chunk_.row) / job_.plan.tile_rows * blocks_ +
           (piece.k - chunk_.k) / job_.plan.block_cols;
  }

  void encode_panel(int64_t row, const Piece& area);
  /// body() for every chunk of the panel from `row` on.
  template <class Body>
  void for_chunks(int64_t row, const Piece& area, const Body& body);
  void find_scales();
  void find_amax(bool skip_nan);
  /// Of E4M3 scales NaN is skipped.
  void find_finite_amax();
  /// Second scales of the chunk's blocks, where regions have them.
  void take_levels() const;
  void take_stored_scales() const;
  /// Where scales are tried: for all blocks of the chunk, whose amax is known.
  void choose_by_error();
  void try_blocks(const Piece& piece);
  void try_block(int64_t index);
  /// Rounding eden: what its scales are before elements are rounded, and after. [linear.md 5]
  void replace_zero_scales(int64_t count) const;
  void correct_scales(const Piece& piece);
  /// Where scales are made of what is not amax.
  void choose_by_statistic();
  /// A block of the chunk.
  [[nodiscard]] Piece block_at(int64_t index) const;
  [[nodiscard]] EncodeTile tile_of(const Piece& piece, const PieceValues& values) const;
  /// Of a piece of the chunk.
  [[nodiscard]] PieceValues values_of(const Piece& piece) const;
  void encode_piece(const Piece& piece);
  void pass_piece(const Piece& piece, const RoundingBackward& op, const GradientFactor& factor);
  /// Encodes into `tile`, whose scales and places are known.
  void encode_values(const Piece& piece, EncodeTile& tile, bool by_definition);
  /// A piece's codes from scratch to where they stay.
  void interleave(const Piece& piece) const;
  /// Zeros after the last row, along the area's part of K.
  void pad_rows(const Piece& area) const;
  void store_scales() const;

  const QuantizeJob& job_;
  QuantizeScratch scratch_;
  QuantizeTotals& totals_;
  Piece chunk_;
  int64_t end_k_ = 0;   // of the area
  int64_t blocks_ = 0;  // of the chunk along K
  bool nonfinite_ = false;
  PieceValues values_;  // of the chunk where it is one piece
};

template <class Body>
void PanelEncoder::for_chunks(int64_t row, const Piece& area, const Body& body) {
  const int64_t rows = std::min(job_.plan.panel_rows, area.row + area.rows - row);
  for (int64_t k = area.k; k < end_k_; k += job_.plan.chunk_cols) {
    chunk_ = {.row = row, .rows = rows, .k = k, .cols = std::min(job_.plan.chunk_cols, end_k_ - k)};
    blocks_ = ceil_div(chunk_.cols, job_.plan.block_cols);
    body();
  }
}

}  // namespace ng::cpu
