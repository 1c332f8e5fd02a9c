// Element rules of integer formats: one FP32 value to one code and back, for host and device.
// [formats.md §2.3, §6]
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "math/round.h"

namespace ng {

/// Values i·2^-mantissa_bits, i of `bits` bits; the least negative i is none.
struct IntegerGrid {
  int bits = 8;
  int mantissa_bits = 0;
  bool is_signed = true;

  [[nodiscard]] NG_HD constexpr int32_t largest() const {
    return (1 << (is_signed ? bits - 1 : bits)) - 1;
  }
};

/// floor(x + R·2^-r) for |x| < 2^8, exactly: x·2^r is cut to an integer toward minus infinity.
NG_HD constexpr int64_t floor_stochastic(float x, const Rounder& rounder) {
  const uint32_t u = float_bits(x) & 0x7FFFFFFFu;
  if (u == 0) return 0;
  const bool normal = u >= 0x00800000u;
  const uint64_t significand = normal ? (u & 0x007FFFFFu) | 0x00800000u : u;
  const int shift = -((normal ? static_cast<int>(u >> 23) - 150 : -149) + rounder.bits);
  uint64_t scaled = 0;  // floor of |x|·2^r
  bool rest = false;
  if (shift <= 0) {
    scaled = significand << -shift;
  } else {
    scaled = shift < 64 ? significand >> shift : 0;
    rest = shift >= 64 || (scaled << shift) != significand;
  }
  const int64_t whole =
      x < 0 ? -static_cast<int64_t>(scaled) - (rest ? 1 : 0) : static_cast<int64_t>(scaled);
  return (whole + static_cast<int64_t>(rounder.random)) >> rounder.bits;
}

/// Code of x; always saturates, NaN becomes the largest.
NG_HD constexpr uint32_t encode_integer(const IntegerGrid& grid, float x, const Rounder& rounder) {
  const int64_t largest = grid.largest();
  const int64_t least = grid.is_signed ? -largest : 0;
  const auto mask = static_cast<uint32_t>((uint64_t{1} << grid.bits) - 1);
  if ((float_bits(x) & 0x7FFFFFFFu) > kFloatInf) return static_cast<uint32_t>(largest);
  // Within this bound every rounding is exact; beyond it the result is clamped in any case.
  const float limit = static_cast<float>(largest) + 1.0f;
  float t = x * static_cast<float>(1 << grid.mantissa_bits);
  t = t < -limit ? -limit : t > limit ? limit : t;
  int64_t i = 0;
  if (rounder.mode == RoundMode::sr && grid.mantissa_bits == 0) {
    i = floor_stochastic(t, rounder);
  } else {
    // An integer grid is the subnormal range of a floating format with ulp 1.
    const FloatGrid integers{.mantissa_bits = 23, .bias = -22};
    i = encode_magnitude(integers, float_bits(t) & 0x7FFFFFFFu, rounder);
    if (t < 0) i = -i;
  }
  i = i < least ? least : i > largest ? largest : i;
  return static_cast<uint32_t>(i) & mask;
}

/// Value of a code, exact.
NG_HD constexpr float decode_integer(const IntegerGrid& grid, uint32_t code) {
  const int unused = 32 - grid.bits;
  const auto shifted = code << unused;
  const float i = grid.is_signed ? static_cast<float>(static_cast<int32_t>(shifted) >> unused)
                                 : static_cast<float>(shifted >> unused);
  return i / static_cast<float>(1 << grid.mantissa_bits);
}

}  // namespace ng
