// Sine and cosine of our own: the same bits on every machine and compiler.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ng::math {

struct SinCos {
  double sin;
  double cos;
};

/// Sine and cosine of 2π · turns, |turns| < 2^50. Taking whole quarter turns off is exact, so the
/// error is < 1.5 · 2^-53 for every argument. NaN in, NaN out.
NG_HD constexpr SinCos sincos_turns(double turns) {
  constexpr double kTwoPi = 0x1.921fb54442d18p+2;
  constexpr double kRounder = 0x1.8p+52;
  constexpr double kSin[] = {-0x1.5555555555555p-3, 0x1.111111111110bp-7,   -0x1.a01a01a018ae3p-13,
                             0x1.71de3a53396f4p-19, -0x1.ae64529842d26p-26, 0x1.612092b2b145bp-33,
                             -0x1.aaa54500c4f37p-41};
  constexpr double kCos[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16c10p-10, 0x1.a01a01a018de9p-16,
                             -0x1.27e4fb75fd6f5p-22, 0x1.1eed8ca3a2e09p-29,  -0x1.9393383a66434p-37,
                             0x1.aac5a9ff3afaep-45};
  if (turns != turns) return {turns, turns};
  const double quarters = (4 * turns + kRounder) - kRounder;
  const double r = (turns - 0.25 * quarters) * kTwoPi;
  const double z = r * r;
  double p = kSin[6];
  for (int i = 5; i >= 0; --i) p = p * z + kSin[i];
  double q = kCos[6];
  for (int i = 5; i >= 0; --i) q = q * z + kCos[i];
  const double s = r + r * (z * p);
  const double c = 1.0 - (0.5 * z - z * z * q);
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

}  // namespace ng::math
