// Arithmetic that knows no subnormals, as matrix tiles and x86's flush modes have it.
#pragma once

#include <cmath>

#include "base/host_device.h"

namespace ng {

/// x, or a zero of its sign where x is subnormal.
NG_HD inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

/// fl32(a · b + c), or a zero of its sign where that is below 2^-126 once it has 24 bits, whatever
/// its exponent: x86 looks after rounding. No argument is subnormal, a and b have eight significant
/// bits.
NG_HD inline float flushed_fma(float a, float b, float c) {
  // Near 2^-126, where this counts, the product ends above 2^-167 or is far too small to.
  const double sum = static_cast<double>(a) * b + c;
  const float rounded = std::fma(a, b, c);
  constexpr double kLargestTiny = 0x1.ffffffp-127;  // halfway from 24 ones to 2^-126
  return std::fabs(sum) < kLargestTiny ? std::copysign(0.0f, rounded) : rounded;
}

}  // namespace ng
