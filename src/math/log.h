// The natural logarithm of our own: the same bits on every machine and compiler.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace ng::math {

/// Constants of the FP32 log, shared with the vector form.
namespace log32 {
constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
constexpr float kLn2High = 0x1.63p-1f;  ///< 9 bits: e · kLn2High is exact
constexpr float kLn2Low = -0x1.bd0106p-13f;
/// (ln(1 + f) - f + f²/2) / f³ for √½ <= 1 + f < √2. [Cephes, logf]
NG_HD constexpr std::array<float, 9> polynomial() {
  return {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,
          -1.6668057665e-1f, 1.4249322787e-1f,  -1.2420140846e-1f,
          1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
}
}  // namespace log32

/// ln(x) of a normal number above 0, error < 2 ulp where it is not near 0; infinity counts as
/// 2^128. With x = 2^e · (1 + f): e · ln 2 + f - f²/2 + f³ · P(f).
NG_HD inline float log(float x) {
  using namespace log32;
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t up = (bits - std::bit_cast<int32_t>(kSqrtHalf)) >> 23;
  const float f = std::bit_cast<float>(bits - up * (1 << 23)) - 1.0f;
  const auto e = static_cast<float>(up);
  constexpr std::array kTerms = polynomial();
  float q = kTerms[8];
  for (int i = 7; i >= 0; --i) q = std::fma(q, f, kTerms[static_cast<size_t>(i)]);
  const float square = f * f;
  const float rest = std::fma(e, kLn2Low, std::fma(square * f, q, -0.5f * square));
  return std::fma(e, kLn2High, f + rest);
}

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
