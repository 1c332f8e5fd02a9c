// Pieces of an operand read from its source: turned, padded and transformed, with their draws.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/quantize/kernels.h"
#include "format/hadamard.h"

namespace ng::cpu {

/// Where a source's draws lie in their stream: the group of its first value, and the groups from
/// one row to the next. A group is eight values of a row. [recipes.md §0]
struct DrawGroups {
  int64_t first = 0;
  int64_t per_row = 0;
};

/// The draw of a source's element.
[[nodiscard]] inline uint32_t random_bits(const RandomKey& key, const DrawGroups& groups,
                                          int64_t row, int64_t col, int bits) {
  const int64_t place = 8 * (groups.first + row * groups.per_row) + col;  // in a tensor of one row
  return ng::random_bits(key, 0, static_cast<uint64_t>(place), 0, bits);
}

/// Rows [row, row + rows) × values [k, k + cols) of an operand.
struct Piece {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t k = 0;
  int64_t cols = 0;
};

/// A piece's values as the encoder sees them (after the Hadamard transform, +0 in the padding).
struct PieceValues {
  TileValues values;
  bool in_place = false;  ///< the source itself
};

struct PieceDraws {
  uint16_t* data = nullptr;
  int64_t stride = 0;
};

/// Of every row and block of a piece the 16 bits drawn for its first element.
struct BlockDraws {
  const uint16_t* data = nullptr;
  int64_t row_stride = 0;
  int64_t block_stride = 0;

  [[nodiscard]] uint16_t operator()(int64_t row, int64_t block) const {
    return data[row * row_stride + block * block_stride];
  }
};

/// Draws of 8 bits: the upper halves of those of 16, above eight zeros.
void keep_high_bytes(uint16_t* draws, int64_t count);

class OperandSource {
 public:
  /// Of FP32 or BF16 values; throws Unsupported for others. `mean` (may be null) is taken off
  /// every row.
  OperandSource(const OperandSpec& spec, const ConstView& source, const RandomKey& key,
                const DrawGroups& groups, const float* mean = nullptr);

  [[nodiscard]] const ConstView& view() const { return source_; }
  [[nodiscard]] int64_t rows() const { return source_.rows; }
  [[nodiscard]] int64_t cols() const { return source_.cols; }
  [[nodiscard]] bool has_mean() const { return mean_ != nullptr; }
  /// What lies from (row, col) of the source on, the mean not taken off.
  [[nodiscard]] TileValues values(int64_t row, int64_t col) const { return values_.from(row, col); }
  /// Row `row` of the source from column `col` on, as FP32, the mean taken off.
  void widen(int64_t row, int64_t col, int64_t count, float* to) const;
  /// The operand's transform of what lies from column `col` on.
  [[nodiscard]] HadamardRule transform_from(int64_t col) const {
    return {.size = spec_.hadamard.size,
            .signs = spec_.hadamard.signs.data(),
            .factor = hadamard_factor(spec_.hadamard.size),
            .mean = has_mean() ? mean_ + col : nullptr};
  }
  [[nodiscard]] const DrawGroups& groups() const { return groups_; }

  /// Floats that `load` may write for a piece of this size.
  static int64_t buffer_floats(int64_t rows, int64_t cols) { return rows * buffer_stride(cols); }
  /// Reads the source in place where it can, else fills `buffer`.
  [[nodiscard]] PieceValues load(const Piece& piece, float* buffer) const;
  /// Bits of the largest |value| of the piece's Hadamard groups, of an operand with a transform.
  [[nodiscard]] uint32_t amax(const Piece& piece, float* buffer) const;

  /// Halves that `draw` may write, and words it needs besides.
  static int64_t draw_halves(int64_t rows, int64_t cols) {
    return (rows + 2 * kStrip) * draw_stride(cols);
  }
  static int64_t draw_words(int64_t cols) { return 2 * kStrip / 2 * draw_stride(cols); }
  /// A draw for every element of the piece, of 16 bits or, by the cast, 8 at their top.
  /// [recipes.md §0]
  [[nodiscard]] PieceDraws draw(const Piece& piece, uint16_t* draws, uint32_t* words) const;

  /// Of a piece of whole blocks, a multiple of 8 values each; writes as much as `draw`.
  [[nodiscard]] BlockDraws draw_blocks(const Piece& piece, int64_t block, uint16_t* draws) const;

  /// The draw of one element of the operand, `bits` wide: 8, 16 or 32.
  [[nodiscard]] uint32_t random_bits(int64_t row, int64_t k, int bits) const;

 private:
  static constexpr int64_t kStrip = 16;  // columns drawn together where the operand is turned
  // Room for the rest of the Hadamard groups at both ends; odd in cache lines.
  static int64_t buffer_stride(int64_t cols) { return (cols + 15) / 16 * 16 + 2 * 128 + 16; }
  static int64_t draw_stride(int64_t cols) { return (cols + 31) / 16 * 16 + 32; }

  [[nodiscard]] TileValues before_transform(const Piece& piece, float* buffer, int64_t stride,
                                            HadamardRule& by) const;
  void copy(const Piece& piece, float* buffer, int64_t stride) const;
  PieceDraws draw_straight(const Piece& piece, uint16_t* draws) const;
  PieceDraws draw_turned(const Piece& piece, uint16_t* draws, uint32_t* words) const;

  OperandSpec spec_;
  ConstView source_;
  TileValues values_;
  RandomKey key_;
  DrawGroups groups_;
  const float* mean_;
};

}  // namespace ng::cpu
