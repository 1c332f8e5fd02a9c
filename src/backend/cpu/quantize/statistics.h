// Scales of blocks by what is not their largest magnitude.
#pragma once

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/quantize/trials.h"

namespace ng::cpu {

/// The scale of a block of values that lie there; `amax`, finite, is their largest magnitude, of
/// which the statistic is. [format/block_statistic.h]
[[nodiscard]] ScaleChoice statistic_scale(const QuantizeJob& job, const TileValues& values,
                                          const Piece& block, float amax);
/// The same of a block of any size, which is loaded in parts.
[[nodiscard]] ScaleChoice statistic_scale(const QuantizeJob& job, const Piece& block, float amax,
                                          float* buffer);

}  // namespace ng::cpu
