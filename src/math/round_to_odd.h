// FP64 on its way through FP32 to fewer bits, rounded once. [Boldo and Melquiond, 2008]
#pragma once

#include <cmath>

#include "math/round.h"

namespace ng {

/// x as FP32; what is inexact gets an odd mantissa, so that rounding the result once more, to at
/// most 22 bits, is rounding once.
inline float rounded_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  const uint32_t bits = float_bits(nearest);  // the next one toward zero, its last bit set
  return float_of_bits((std::fabs(nearest) > std::fabs(x) ? bits - 1 : bits) | 1u);
}

}  // namespace ng
