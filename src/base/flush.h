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
/// its exponent: x86 looks after rounding. No argument is subnormal.
NG_HD inline float flushed_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact
  const double sum = product + c;
  const float rounded = std::fma(a, b, c);
  constexpr double kHalfway = 0x1.ffffffp-127;  // from 24 ones to 2^-126, to which it rounds
  bool is_tiny = std::fabs(sum) < kHalfway;
  if (std::fabs(sum) == kHalfway) {  // what the sum lost decides [Knuth's two-sum]
    const double of_c = sum - product;
    const double lost = (product - (sum - of_c)) + (c - of_c);
    is_tiny = lost != 0 && (lost < 0) == (sum > 0);
  }
  return is_tiny ? std::copysign(0.0f, rounded) : rounded;
}

}  // namespace ng
