// Rivals of auto-scaling, for studies: sums whose running value is rounded at every hop. [errata-2,
// 30; FP8-LM, Eqs. 1, 2]
#pragma once

#include "comm/gradient_sum.h"

namespace ng {

/// A reduced tensor: the running value after the last hop, decoded, and what it stands for.
struct RingMean {
  std::vector<float> sum, mean;
};

/// Codes of g·fl(s_g/N), which underflow; the mean is fl(code·fl(1/s_g)). Gradients of one tensor
/// by rank; the element format is the cast's, s_g that of the largest magnitude, rounding to
/// nearest.
[[nodiscard]] RingMean pre_scaled_mean(const Operand& cast, ValuesByRank gradients);
/// Codes of g·s_g, which saturate as they are summed; the mean is fl(code·fl(1/fl(N·s_g))).
[[nodiscard]] RingMean post_scaled_mean(const Operand& cast, ValuesByRank gradients);

}  // namespace ng
