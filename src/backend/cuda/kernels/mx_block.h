// A block of 32 values with an E8M0 scale, one value a lane of a warp. [formats.md §3.2, §4]
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/element_cast.h"
#include "backend/cuda/kernels/largest.h"
#include "format/scale.h"

namespace ng::cuda {

inline constexpr int kMxBlock = 32;

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

/// Of a block with the largest magnitude of these FP32 bits, which are ordered as the magnitudes.
__device__ inline uint32_t scale_code(const MxCast& cast, uint32_t amax_bits) {
  if (amax_bits >= kFloatInf) return kE8m0NanCode;
  if (amax_bits == 0) return 0;
  return e8m0_code(e8m0_exponent(cast.rule, float_of_bits(amax_bits), cast.range));
}

/// What the encoder is given of `value`, its code and that of the block's scale.
struct MxCode {
  float scaled = 0;
  uint32_t code = 0, scale = 0;
};

/// Block `block` of an operand; `value` is that of the lane, at (row, col) of the source.
__device__ inline MxCode put_block(const MxCast& cast, const MxOperand& y, float value, int64_t row,
                                   int64_t col, int64_t cols, int64_t block) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  MxCode made;
  made.scale = scale_code(cast, largest_bits_of_warp(float_bits(value) & 0x7FFFFFFFu));
  if (made.scale != kE8m0NanCode) {
    made.scaled = value * cast.prescale * e8m0_multiplier(made.scale);
    made.code = code_of(cast.element, made.scaled, row, col, cols);
  }
  if (lane == 0) y.scales[block] = static_cast<uint8_t>(made.scale);
  if (!cast.four_bits) {
    y.codes[block * kMxBlock + lane] = static_cast<uint8_t>(made.code);
    return made;
  }
  const uint32_t next = __shfl_down_sync(~0u, made.code, 1);
  if (lane % 2 == 0)
    y.codes[(block * kMxBlock + lane) / 2] = static_cast<uint8_t>(made.code | (next << 4));
  return made;
}

}  // namespace ng::cuda
