// How a kernel rounds one value to an element: the rules of math/round.h and math/round_integer.h
// with its draw.
#pragma once

#include <cstdint>

#include "backend/cuda/words.h"
#include "format/codec.h"
#include "format/operand.h"
#include "math/philox.h"
#include "math/round.h"
#include "math/round_integer.h"

namespace ng::cuda {

enum class CodeKind : uint8_t {
  floating,
  integer,
  exact,       ///< FP32: codes are its bits
  upper_half,  ///< BF16: of them; rounded to as floating numbers are
};

/// How one value becomes a code. [formats.md §2]
struct ElementCast {
  FloatGrid grid;
  OverflowRule overflow = OverflowRule::saturate;
  RoundMode mode = RoundMode::rne;
  int sr_bits = 16;  ///< of RoundMode::sr
  StepKey key;       ///< of RoundMode::sr: draws of the element's place in the matrix
  CodeKind kind = CodeKind::floating;
  IntegerGrid integers{};   ///< in place of `grid`
  uint32_t least_code = 0;  ///< lesser magnitudes are flushed
};

/// Of signed elements.
[[nodiscard]] inline ElementCast element_cast(const Operand& cast, const StepKey& key) {
  const ElementFormat& element = *cast.element;
  const bool is_integer = element.kind == ElementKind::integer;
  const bool is_exact = cast.is_fp32();
  return {.grid = is_integer || is_exact ? FloatGrid{} : grid_of(element),
          .overflow = overflow_rule(cast.overflow),
          .mode = cast.rounding == Rounding::stochastic ? RoundMode::sr : RoundMode::rne,
          .sr_bits = cast.sr_bits,
          .key = key,
          .kind = is_exact                     ? CodeKind::exact
                  : is_integer                 ? CodeKind::integer
                  : &element == &bf16_format() ? CodeKind::upper_half
                                               : CodeKind::floating,
          .integers = is_integer ? integer_grid_of(element) : IntegerGrid{},
          .least_code = least_kept_code(element, cast.subnormals)};
}

/// As encode_magnitude(), in 32 bits and few steps: to nearest or stochastically, of formats with 1
/// to 7 bits of mantissa (without, the last bit of a code is not that of n) whose least numbers
/// FP32 has as normal ones.
NG_HD inline uint32_t encode_small_magnitude(const FloatGrid& grid, uint32_t u,
                                             const Rounder& rounder) {
  const int shift = 23 - grid.mantissa_bits;
  const int least = 128 - grid.bias;  // exponent field of the least normal number
  const auto exponent = static_cast<int>(u >> 23);
  const bool is_normal = exponent >= least;
  const uint32_t above = u - (static_cast<uint32_t>(least - 1) << 23);
  if (rounder.mode == RoundMode::rne) {
    if (is_normal) return (above + (1u << (shift - 1)) - 1 + ((above >> shift) & 1)) >> shift;
    // A sum whose last bit is the format's.
    const float magic = float_of_bits(static_cast<uint32_t>(least + shift) << 23);
    return float_bits(float_of_bits(u) + magic) - float_bits(magic);
  }
  const int dropped = shift - rounder.bits + (is_normal ? 0 : least - exponent);
  const uint32_t significand = is_normal ? above : (u & 0x007FFFFFu) | 0x00800000u;
  return ((dropped < 32 ? significand >> dropped : 0u) + rounder.random) >> rounder.bits;
}
[[nodiscard]] NG_HD inline bool is_small(const FloatGrid& grid, const Rounder& rounder) {
  return grid.mantissa_bits >= 1 && grid.mantissa_bits <= 7 && grid.bias <= 64 &&
         (rounder.mode == RoundMode::rne || (rounder.mode == RoundMode::sr && rounder.bits <= 16));
}

/// As encode_float().
NG_HD inline uint32_t encode_floating(const FloatGrid& grid, float x, const Rounder& rounder,
                                      OverflowRule overflow) {
  const uint32_t u = float_bits(x) & 0x7FFFFFFFu;
  if (u >= kFloatInf || !is_small(grid, rounder)) return encode_float(grid, x, rounder, overflow);
  const uint32_t code = encode_small_magnitude(grid, u, rounder);
  if (code > grid.max_code) return encode_float(grid, x, rounder, overflow);
  const bool is_negative = float_bits(x) >> 31 != 0 && (code != 0 || grid.negative_zero);
  return is_negative ? code | grid.sign_mask : code;
}

/// As ElementCodec encodes.
__device__ inline uint32_t encode_element(const ElementCast& cast, float x,
                                          const Rounder& rounder) {
  if (cast.kind == CodeKind::exact) return float_bits(x);
  if (cast.kind == CodeKind::integer) return encode_integer(cast.integers, x, rounder);
  return flushed_code(cast.grid, encode_floating(cast.grid, x, rounder, cast.overflow),
                      cast.least_code);
}
/// As decode_float() decodes BF16, which is FP32's upper half.
__device__ inline float decode_bf16(uint32_t code) {
  const uint32_t u = code << 16;
  return float_of_bits((u & 0x7FFFFFFFu) > kFloatInf ? (u & 0x80000000u) | 0x7FC00000u : u);
}
__device__ inline float decode_element(const ElementCast& cast, uint32_t code) {
  if (cast.kind == CodeKind::exact) return float_of_bits(code);
  if (cast.kind == CodeKind::upper_half) return decode_bf16(code);
  if (cast.kind == CodeKind::integer) return decode_integer(cast.integers, code);
  return decode_float(cast.grid, code);
}

/// Whether it stands for 0.
__device__ inline bool is_zero_code(const ElementCast& cast, uint32_t code) {
  if (cast.kind == CodeKind::exact) return code << 1 == 0;
  if (cast.kind == CodeKind::integer) return decode_integer(cast.integers, code) == 0;
  return code == 0 || (code == cast.grid.sign_mask && cast.grid.negative_zero);
}

/// What is drawn at (row, col) of a matrix of `cols` columns.
__device__ inline uint32_t random_of(const ElementCast& cast, int64_t row, int64_t col,
                                     int64_t cols) {
  return random_bits(cast.key.now(), static_cast<uint64_t>(row), static_cast<uint64_t>(col),
                     static_cast<uint64_t>(cols), cast.sr_bits);
}
/// How it is rounded there.
__device__ inline Rounder rounder_of(const ElementCast& cast, int64_t row, int64_t col,
                                     int64_t cols) {
  const bool draws = cast.mode == RoundMode::sr;
  return {.mode = cast.mode,
          .bits = cast.sr_bits,
          .random = draws ? random_of(cast, row, col, cols) : 0};
}

/// Of x at (row, col) of a matrix of `cols` columns.
__device__ inline uint32_t code_of(const ElementCast& cast, float x, int64_t row, int64_t col,
                                   int64_t cols) {
  return encode_element(cast, x, rounder_of(cast, row, col, cols));
}

}  // namespace ng::cuda
