// e^x of our own: the same bits on every machine and compiler.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace ng::math {

/// Constants of the FP32 exp, shared with the vector form.
namespace exp32 {
constexpr float kHighest = 89.0f;   ///< e^89 overflows even with the largest rounding error
constexpr float kLowest = -104.0f;  ///< e^-104 < 2^-150 rounds to 0
constexpr float kLog2e = 0x1.715476p+0f;
constexpr float kLn2High = 0x1.62e4p-1f;  ///< 15 bits: n · kLn2High is exact
constexpr float kLn2Low = 0x1.7f7d1cp-20f;
constexpr float kRounder = 0x1.8p+23f;  ///< adding it rounds to an integer, left in the low bits
/// (e^r - 1 - r) / r² on |r| <= ln(2)/2, minimax, relative error of e^r < 2^-28.
NG_HD constexpr std::array<float, 5> polynomial() {
  return {0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.555916p-5f, 0x1.123fc6p-7f, 0x1.6a1a6cp-10f};
}
}  // namespace exp32

/// Constants of the FP64 exp, shared with the vector form.
namespace exp64 {
constexpr double kHighest = 710.0;  ///< e^710 overflows
constexpr double kLowest = -746.0;  ///< e^-746 < 2^-1075 rounds to 0
constexpr double kLog2e = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42feep-1;  ///< n · kLn2High is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kRounder = 0x1.8p+52;  ///< adding it rounds to an integer, left in the low bits
/// (e^r - 1 - r) / r² on |r| <= ln(2)/2
NG_HD constexpr std::array<double, 11> polynomial() {
  return {0x1.0000000000000p-1,  0x1.555555555555cp-3,  0x1.55555555554fap-5,
          0x1.111111110e961p-7,  0x1.6c16c16c32611p-10, 0x1.a01a01b4aa4a0p-13,
          0x1.a01a01301c2d8p-16, 0x1.71dded2a34dd4p-19, 0x1.27e5bbc6dc56fp-22,
          0x1.af711f1e52be3p-26, 0x1.1e3986eabeadcp-29};
}
}  // namespace exp64

/// e^x = 2^n · e^r, error < 1 ulp (subnormal results included). Overflows to inf, underflows
/// gradually to 0; NaN in, NaN out.
NG_HD inline float exp(float x) {
  using namespace exp32;
  float c = kLowest > x ? kLowest : x;
  c = kHighest < c ? kHighest : c;
  const float shifted = std::fma(c, kLog2e, kRounder);
  const float n = shifted - kRounder;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, c));
  constexpr std::array kTerms = polynomial();
  float q = kTerms[4];
  for (int i = 3; i >= 0; --i) q = std::fma(q, r, kTerms[i]);
  const float y = std::fma(r * r, q, r) + 1.0f;
  // 2^n in two factors, so that neither overflows and only the last product rounds.
  const int32_t whole = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRounder);
  const int32_t half = whole >> 1;
  const float first = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float second = std::bit_cast<float>(static_cast<uint32_t>(whole - half + 127) << 23);
  return y * first * second;
}

/// e^x, error < 1 ulp where the result is normal; overflows to inf, underflows to 0, NaN in, NaN
/// out. Multiplications and additions only, so that no machine needs a fused one.
NG_HD constexpr double exp(double x) {
  using namespace exp64;
  constexpr std::array kTerms = polynomial();
  if (x != x) return x;
  if (x > kHighest) return std::numeric_limits<double>::infinity();
  if (x < kLowest) return 0.0;
  const double n = (x * kLog2e + kRounder) - kRounder;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double q = kTerms[10];
  for (int i = 9; i >= 0; --i) q = q * r + kTerms[i];
  const double y = (r * r * q + r) + 1.0;
  const int64_t whole = static_cast<int64_t>(n);
  const int64_t half = whole >> 1;
  return y * std::bit_cast<double>(static_cast<uint64_t>(half + 1023) << 52) *
         std::bit_cast<double>(static_cast<uint64_t>(whole - half + 1023) << 52);
}

}  // namespace ng::math
