// Rounding of matrices on a card: to elements as they are, and to blocks of 32 with E8M0 scales.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/element_cast.h"
#include "format/scale.h"

namespace ng::cuda {

/// A matrix of FP32, row by row.
struct Fp32Matrix {
  const float* data = nullptr;
  int64_t rows = 0, cols = 0;
};

/// codes[row · cols + col], of elements of 8 or 16 bits. The bits of `ref`'s Store.
void cast_elements(Stream stream, const Fp32Matrix& x, const ElementCast& cast, uint8_t* codes);
void cast_elements(Stream stream, const Fp32Matrix& x, const ElementCast& cast, uint16_t* codes);

/// A cast with E8M0 scales of 1 x 32 values. [formats.md §3.2, §4]
struct MxCast {
  ElementCast element;
  ElementRange range;
  ScaleRule rule = ScaleRule::floor;  ///< any but mse
  float prescale = 1;
  bool four_bits = false;  ///< two codes a byte, the first in the low half; else one
};

/// Where its codes go. An operand of R rows along K, whose blocks are padded with zeros: R rows of
/// ceil(K/32) scales, and 32 codes for each.
struct MxOperand {
  uint8_t* codes = nullptr;
  uint8_t* scales = nullptr;
};

/// Both operands of a matrix in one read of it: `straight` along its columns, `turned` (that of
/// its transpose) along its rows; codes null: not wanted. The bits of `ref`'s PrepareBoth.
void quantize_mx(Stream stream, const Fp32Matrix& x, const MxCast& cast, const MxOperand& straight,
                 const MxOperand& turned);

}  // namespace ng::cuda
