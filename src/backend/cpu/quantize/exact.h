// The scalar definition of an operand's bits, for what the vector kernels leave out: non-finite
// values, overflow to special codes and 32-bit draws.
#pragma once

#include <cstdint>

#include "backend/cpu/quantize/job.h"
#include "format/codec.h"

namespace ng::cpu {

/// What the encoder sees of `value`: NaN stays NaN, also under a scale of zero unless that is E4M3.
[[nodiscard]] float exact_scaled(const QuantizeJob& job, float value, float multiplier);
/// The element at (row, k) of the operand that the encoder makes of it; `is_other`: the second of a
/// list.
[[nodiscard]] float exact_element(const QuantizeJob& job, const ElementCodec& codec, float y,
                                  int64_t row, int64_t k, bool is_other);

/// Encodes a piece as encode_tile does, and counts. `decode` has the shape of tile.multipliers;
/// NaN marks a NaN block.
void exact_encode(const QuantizeJob& job, const Piece& piece, const EncodeTile& tile,
                  const float* decode, OperandStats& stats);

/// Bits of the largest |value|, NaN skipped.
[[nodiscard]] uint32_t amax_without_nan(const TileValues& values, int64_t rows, int64_t cols);

}  // namespace ng::cpu
