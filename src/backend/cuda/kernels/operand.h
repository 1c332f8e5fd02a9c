// GEMM operands on a card: read in place, or codes of MX blocks with their scales. [formats.md §4]
//
//   read in place  FP32, BF16 and FP16 without scale and transform, rounded to nearest: nothing is
//                  stored, the GEMM rounds what it reads
//   MX             [rows][k_padded] codes, two a byte where they have four bits, the first in the
//                  low half, else one; then [rows][k_padded / 32] codes of E8M0
//   one scale      [rows][k_padded] codes of a byte, up to a multiple of 4; then a CardScale
#pragma once

#include "backend/cuda/kernels/mx_block.h"
#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

/// The one scale of an operand, in the card's memory.
struct CardScale {
  uint32_t amax = 0;  ///< bits of the largest magnitude, NaN aside
  uint32_t has_nan = 0;
  float multiplier = 1;  ///< of values before they are encoded
  float decode = 1;      ///< of decoded elements, in the end
};

/// An operand as a kernel reads it.
struct CardOperand {
  Source source;           ///< read in place
  bool is_turned = false;  ///< Contract::rows
  bool is_exact = false;   ///< nothing is rounded: FP32
  ElementCast element{};
  MxOperand mx{};              ///< where it is not read in place
  CardScale* scale = nullptr;  ///< of one scale
  bool stored = false;         ///< as codes
  bool blocked = false, four_bits = false;
  int64_t rows = 0, k = 0, k_padded = 0;

  [[nodiscard]] NG_HD bool is_blocked() const { return blocked; }
  [[nodiscard]] __device__ float late_scale() const {
    return scale != nullptr ? scale->decode : 1.0f;
  }
  /// Of E8M0.
  [[nodiscard]] __device__ uint32_t scale_code_at(int64_t row, int64_t at) const {
    return mx.scales[(row * k_padded + at) / kMxBlock];
  }
  [[nodiscard]] __device__ uint32_t code_at(int64_t row, int64_t at) const {
    const int64_t i = row * k_padded + at;
    if (!four_bits) return mx.codes[i];
    return (mx.codes[i / 2] >> (i % 2 * 4)) & 0xFu;
  }
  /// The element without its scale; 0 outside.
  [[nodiscard]] __device__ float element_at(int64_t row, int64_t at) const {
    if (row >= rows || at >= k_padded) return 0;
    if (stored) return decode_float(element.grid, code_at(row, at));
    if (at >= k) return 0;
    const float x = is_turned ? source(at, row) : source(row, at);
    return is_exact
               ? x
               : decode_float(element.grid, encode_float(element.grid, x, {}, element.overflow));
  }
};

/// Throws Unsupported for casts that the backend lacks.
[[nodiscard]] CardOperand card_operand(const PackedOperand& packed);

}  // namespace ng::cuda
