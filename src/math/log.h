// The natural logarithm of our own: the same bits on every machine and compiler.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace ng::math {

/// ln(x), error < 1 ulp. ln(0) = -inf, ln(inf) = inf, NaN for negative numbers and NaN. With
/// x = 2^e · (1 + f) and s = f / (2 + f): ln(1 + f) = f - f²/2 + s · (f²/2 + R(s²)), as in FDLIBM.
NG_HD constexpr double log(double x) {
  constexpr double kPolynomial[] = {
      // (2 atanh(s) - 2s) / s³ in s², minimax, error < 2^-65
      0x1.5555555555555p-1, 0x1.9999999999e0ep-2, 0x1.249249242a0afp-2, 0x1.c71c725a6c2d5p-3,
      0x1.745cddc2990aep-3, 0x1.3b20bf49c7886p-3, 0x1.0f5b0a548e75cp-3, 0x1.0f7300d1de4f9p-3};
  constexpr double kLn2High = 0x1.62e42feep-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCDu;
  if (x != x || x == std::numeric_limits<double>::infinity()) return x;
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int64_t up = static_cast<int64_t>(bits - kSqrtHalf) >> 52;  // x = 2^up · [sqrt(½), sqrt(2))
  exponent += up;
  const double f = std::bit_cast<double>(bits - (static_cast<uint64_t>(up) << 52)) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double r = kPolynomial[7];
  for (int i = 6; i >= 0; --i) r = r * z + kPolynomial[i];
  const double half_square = 0.5 * f * f;
  const double e = static_cast<double>(exponent);
  return e * kLn2High - ((half_square - (s * (half_square + z * r) + e * kLn2Low)) - f);
}

}  // namespace ng::math
