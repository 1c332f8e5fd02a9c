// Element rules: one FP32 value to one code of a narrow floating format and back. Plain inline
// functions for host and device, integer arithmetic only. [formats.md §1.1, §2]
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ng {

NG_HD constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
NG_HD constexpr float float_of_bits(uint32_t u) { return __builtin_bit_cast(float, u); }

inline constexpr uint32_t kFloatInf = 0x7F800000u;  ///< bits of +Inf; |x| bits above: NaN
inline constexpr float kFloatMax = 3.402823466e+38f;

/// Exponent of a finite a > 0, FP32 subnormals included. [formats.md §0]
NG_HD constexpr int floor_log2(float a) {
  const uint32_t u = float_bits(a) & 0x7FFFFFFFu;
  return u >= 0x00800000u ? static_cast<int>(u >> 23) - 127 : high_bit(u) - 149;
}

/// a = significand · 2^(floor_log2(a) - 23), a > 0 finite: in [2^23, 2^24).
NG_HD constexpr uint32_t significand_of(float a) {
  const uint32_t u = float_bits(a) & 0x7FFFFFFFu;
  return u >= 0x00800000u ? (u & 0x007FFFFFu) | 0x00800000u : u << (23 - high_bit(u));
}

/// 2^e, exact for -149 <= e <= 127; 0 below, Inf above.
NG_HD constexpr float pow2(int e) {
  if (e > 127) return float_of_bits(kFloatInf);
  if (e >= -126) return float_of_bits(static_cast<uint32_t>(e + 127) << 23);
  return e >= -149 ? float_of_bits(1u << (e + 149)) : 0.0f;
}

/// How a magnitude between two neighbours n and n + 1 is rounded. [formats.md §2.1]
enum class RoundMode : uint8_t {
  rne,  ///< to nearest, ties to even
  rna,  ///< to nearest, ties away from zero
  rtz,  ///< toward zero
  rup,  ///< away from zero; for scales
  sr,   ///< stochastic: up iff floor(f·2^r) + R >= 2^r
};

/// A rounding with its random draw: `random` is R, uniform in [0, 2^bits). [formats.md §2.3]
struct Rounder {
  RoundMode mode = RoundMode::rne;
  int bits = 16;
  uint32_t random = 0;
};

/// significand · 2^-shift rounded to an integer; significand < 2^24, shift >= 0.
NG_HD constexpr uint32_t round_shift(uint32_t significand, int shift, const Rounder& rounder) {
  const uint64_t sig = significand;
  if (rounder.mode == RoundMode::sr) {
    // floor(t·2^r) is the integer part n and the first r bits F of the fraction; adding R carries
    // into n iff F + R >= 2^r.
    const uint64_t scaled = shift < 64 ? (sig << rounder.bits) >> shift : 0;
    return static_cast<uint32_t>((scaled + rounder.random) >> rounder.bits);
  }
  if (shift > 30) return rounder.mode == RoundMode::rup && sig != 0 ? 1 : 0;  // 0 < f < 1/2
  const uint64_t n = sig >> shift;
  const uint64_t rest = sig - (n << shift);
  const uint64_t twice = rest * 2;
  const uint64_t one = uint64_t{1} << shift;
  bool up = false;
  switch (rounder.mode) {
    case RoundMode::rne:
      up = twice > one || (twice == one && (n & 1) != 0);
      break;
    case RoundMode::rna:
      up = rest != 0 && twice >= one;
      break;
    case RoundMode::rup:
      up = rest != 0;
      break;
    default:
      break;
  }
  return static_cast<uint32_t>(n + (up ? 1 : 0));
}

/// What the encoder and decoder of one floating format need to know; derived from its table row.
struct FloatGrid {
  int mantissa_bits = 0;
  int bias = 0;
  uint32_t max_code = 0;   ///< of the largest finite magnitude
  uint32_t inf_code = 0;   ///< 0: the format has no infinity
  uint32_t nan_code = 0;   ///< 0: the format has no NaN
  uint32_t sign_mask = 0;  ///< 0: unsigned
  bool negative_zero = true;
};

/// What happens to results above the largest element and to infinities. [formats.md §2.2]
enum class OverflowRule : uint8_t { saturate, special };

/// Mag code of a finite magnitude with FP32 bits `u`, before any overflow rule: the carry out of
/// the mantissa field is the next binade, so it may exceed max_code. [formats.md §2.1]
NG_HD constexpr uint32_t encode_magnitude(const FloatGrid& grid, uint32_t u,
                                          const Rounder& rounder) {
  if (u == 0) return 0;
  const bool normal = u >= 0x00800000u;
  const uint32_t significand = normal ? (u & 0x007FFFFFu) | 0x00800000u : u;
  const int exponent = normal ? static_cast<int>(u >> 23) - 150 : -149;  // of its last bit
  const int binade = high_bit(significand) + exponent;
  const int e = binade > 1 - grid.bias ? binade : 1 - grid.bias;
  const uint32_t n = round_shift(significand, e - grid.mantissa_bits - exponent, rounder);
  return (static_cast<uint32_t>(e + grid.bias - 1) << grid.mantissa_bits) + n;
}

/// Code of x. Unsigned formats take |x|.
NG_HD constexpr uint32_t encode_float(const FloatGrid& grid, float x, const Rounder& rounder,
                                      OverflowRule overflow) {
  const uint32_t u = float_bits(x) & 0x7FFFFFFFu;
  if (u > kFloatInf) return grid.nan_code != 0 ? grid.nan_code : grid.max_code;
  uint32_t code = u == kFloatInf ? ~0u : encode_magnitude(grid, u, rounder);
  if (code > grid.max_code) {
    code = grid.max_code;
    if (overflow == OverflowRule::special && grid.inf_code != 0)
      code = grid.inf_code;
    else if (overflow == OverflowRule::special && grid.nan_code != 0)
      return grid.nan_code;
  }
  const bool signed_result = code != 0 || grid.negative_zero;
  return (float_bits(x) >> 31) != 0 && signed_result ? code | grid.sign_mask : code;
}

/// The code, or where its magnitude is below `least` a zero of its sign.
NG_HD constexpr uint32_t flushed_code(const FloatGrid& grid, uint32_t code, uint32_t least) {
  const uint32_t magnitude = code & ~grid.sign_mask;
  if (magnitude == 0 || magnitude >= least) return code;
  return grid.negative_zero ? code & grid.sign_mask : 0;
}

/// Value of a code, exact in FP32. [formats.md §1.1]
NG_HD constexpr float decode_float(const FloatGrid& grid, uint32_t code) {
  const bool negative = (code & grid.sign_mask) != 0;
  const uint32_t magnitude = grid.sign_mask != 0 ? code & (grid.sign_mask - 1) : code;
  const uint32_t sign = negative ? 0x80000000u : 0;
  const bool nan = grid.negative_zero ? magnitude > grid.max_code : code == grid.sign_mask;
  if (grid.inf_code != 0 && magnitude == grid.inf_code) return float_of_bits(kFloatInf | sign);
  if (nan) return float_of_bits(0x7FC00000u | sign);
  const uint32_t field = magnitude >> grid.mantissa_bits;
  const uint32_t hidden = field != 0 ? 1u << grid.mantissa_bits : 0;
  uint32_t significand = (magnitude & ((1u << grid.mantissa_bits) - 1)) | hidden;
  if (significand == 0) return float_of_bits(sign);
  // significand · 2^exponent as FP32 bits: normalise, or shift into the subnormal range.
  int exponent = static_cast<int>(field != 0 ? field : 1) - grid.bias - grid.mantissa_bits;
  const int lift = 23 - high_bit(significand);
  significand <<= lift;
  exponent -= lift;
  const int biased = exponent + 150;
  if (biased >= 1)
    return float_of_bits(sign | (static_cast<uint32_t>(biased) << 23) |
                         (significand & 0x007FFFFFu));
  return float_of_bits(sign | (significand >> (1 - biased)));
}

/// x rounded to BF16, nearest even, as FP32: the plain cast (overflow to Inf, NaN stays NaN).
NG_HD constexpr float round_to_bf16(float x) {
  const uint32_t u = float_bits(x);
  if ((u & 0x7FFFFFFFu) > kFloatInf) return float_of_bits(u | 0x00400000u);
  return float_of_bits((u + 0x7FFFu + ((u >> 16) & 1)) & 0xFFFF0000u);
}

}  // namespace ng
