// The walk over source columns for turned operands that are stored interleaved: sixteen operand
// rows are sixteen source columns, read, transformed and encoded where they lie.
//
//   source (k, rows)          k is down: a block of 32 is 32 source rows of one column
//   panel      64 columns     256 bytes of FP32 of every source row, whole cache lines
//   chunk     128 source rows 128 · 64 values, 32 KiB of FP32, 16 KiB of draws
//   sixteen    16 columns     the lanes of one vector; 128 / 32 · 16 scales; 128 · 16 int8 out,
//                             which are [32][16][4]: whole words of the layout, no transposing
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/quantize/job.h"

namespace ng::cpu {

/// Operand rows that a worker takes at once: 256 bytes of every source row.
constexpr int64_t kColumnPanel = 64;

/// Whether ColumnEncoder knows the operand: vertical blocks whose scales need no other columns.
[[nodiscard]] bool encodes_columns(const OperandSpec& spec, const PackedLayout& layout);

/// One worker's walk over panels of such an operand.
class ColumnEncoder {
 public:
  ColumnEncoder(const QuantizeJob& job, std::span<std::byte> memory, QuantizeTotals& totals);

  /// An area of the operand that begins and ends with whole panels and chunks, or with the operand.
  void encode(const Piece& area);
  /// Adds the largest |value| after the transform of such an area to the worker's totals.
  void note_amax(const Piece& area);

 private:
  struct Scratch;

  void encode_panel(int64_t row, const Piece& area);
  /// Of the rows from panel_ to `end`.
  void note_panel_amax(int64_t first_k, int64_t end);
  void draw(int64_t k, int64_t count);
  void encode_sixteen(int64_t row, int64_t k, int64_t count);
  ColumnTile load(int64_t row, int64_t k, int64_t count);
  void fetch_next(ColumnTile& tile, int64_t row, int64_t k) const;
  void find_scales(const ColumnTile& tile, int64_t row, int64_t k);
  void take_levels(int64_t row, int64_t k, int64_t blocks);
  void choose_scales_of(const ColumnTile& tile);
  void store_scales(int64_t row, int64_t first_block, int64_t blocks);
  void encode_by_definition(const ColumnTile& tile, int64_t row, int64_t k, int64_t block);

  const QuantizeJob& job_;
  QuantizeTotals& totals_;
  Scratch& scratch_;
  int64_t panel_ = 0;       ///< first row
  int64_t end_k_ = 0;       ///< of the area
  bool nonfinite_ = false;  ///< of the tile whose scales were found last
};

}  // namespace ng::cpu
