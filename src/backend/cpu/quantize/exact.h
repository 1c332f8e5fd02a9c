// The scalar definition of an operand's bits, for what the vector kernels leave out: non-finite
// values, overflow to special codes, 32-bit draws, and the scale rule `mse`.
#pragma once

#include <cstdint>

#include "backend/cpu/quantize/job.h"

namespace ng::cpu {

/// Encodes a piece as encode_tile does, and counts. `decode` has the shape of tile.multipliers;
/// NaN marks a NaN block.
void exact_encode(const QuantizeJob& job, const Piece& piece, const EncodeTile& tile,
                  const float* decode, OperandStats& stats);

/// Bits of the largest |value|, NaN skipped.
[[nodiscard]] uint32_t amax_without_nan(const TileValues& values, int64_t rows, int64_t cols);

struct ScaleChoice {
  float decode = 0;
  float multiplier = 0;
};
/// The rule `mse`: of floor's E8M0 scale and the next the one that gives `block`, whose largest
/// finite magnitude is `amax` > 0, less squared error; ties to the smaller. FP64 sums by ascending
/// rows, then columns, rounding to nearest. `buffer` is that of a piece. [formats.md §3.2]
[[nodiscard]] ScaleChoice choose_scale(const QuantizeJob& job, const Piece& block, float amax,
                                       float* buffer);

}  // namespace ng::cpu
