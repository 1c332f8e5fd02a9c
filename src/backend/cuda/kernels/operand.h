// GEMM operands on a card: read in place, or codes with their scales. [formats.md §4 to §6]
//
//   read in place  FP32, BF16 and FP16 without scale and transform, rounded to nearest: nothing is
//                  stored, the GEMM rounds what it reads
//   one scale      [rows][k_padded] codes of 8, 16 or 32 bits, up to a multiple of 4; then a
//                  CardScale: floats without scale, or with one for all of them
//   blocks         the same, two codes a byte where they have four bits; then [blocks down][blocks
//                  across] scales, E8M0 and E4M3 a byte each, else FP32; up to a multiple of 4,
//                  then a CardScale, of which two levels have the second
#pragma once

#include "backend/cuda/kernels/mx_block.h"
#include "backend/cuda/kernels/stored_source.h"
#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

/// A scale for all of an operand, in the card's memory.
struct CardScale {
  uint32_t amax = 0;  ///< bits of the largest magnitude, NaN aside
  uint32_t has_nan = 0;
  float multiplier = 1;  ///< of values before they are encoded; two levels: TwoLevelScale::block
  float decode = 1;      ///< of decoded elements, in the end
};

/// An operand as a kernel reads it.
struct CardOperand {
  Source source;           ///< read in place
  bool is_turned = false;  ///< Contract::rows
  ElementCast element{};
  CodeRows codes{};            ///< where it is not read in place
  BlockScales scales{};        ///< of blocks, rows or the tensor
  CardScale* scale = nullptr;  ///< the only one, or the second level
  bool stored = false;         ///< as codes
  bool blocked = false;        ///< in tiles: scales are those of blocks along K
  int64_t rows = 0, k = 0, k_padded = 0;

  [[nodiscard]] NG_HD bool is_blocked() const { return blocked; }
  [[nodiscard]] NG_HD MxOperand mx() const { return {codes.data, scales.data}; }
  /// Of the block, without the second level.
  [[nodiscard]] __device__ float scale_at(int64_t row, int64_t at) const {
    return scales.data != nullptr ? scales.value(scales.index(row, at)) : 1.0f;
  }
  /// For all of them.
  [[nodiscard]] __device__ float whole_scale() const {
    return scale != nullptr ? scale->decode : 1.0f;
  }
  /// What is left to the end of a product: all that is not a block's.
  [[nodiscard]] __device__ float late_scale(int64_t row) const {
    return blocked ? whole_scale() : scale_at(row, 0) * whole_scale();
  }
  /// The element without its scale; 0 outside.
  [[nodiscard]] __device__ float element_at(int64_t row, int64_t at) const {
    if (row >= rows || at >= k_padded) return 0;
    if (stored) return decode_element(element, codes(row, at));
    if (at >= k) return 0;
    const float x = is_turned ? source(at, row) : source(row, at);
    return decode_element(element, encode_element(element, x, {}));
  }
};

/// Throws Unsupported for casts that the backend lacks.
[[nodiscard]] CardOperand card_operand(const PackedOperand& packed);

}  // namespace ng::cuda
