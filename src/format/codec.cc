#include "format/codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "format/scale.h"

namespace ng {
namespace {

constexpr uint32_t kE8m0NaN = 0xFF;

int32_t largest_integer(const ElementFormat& format) {
  return (1 << (format.is_signed ? format.bits - 1 : format.bits)) - 1;
}

/// The general rule with no mantissa bits: x >= 2^-126 has n = 1, so a tie goes up to the even 2;
/// below, t = x / 2^-126 is rounded to 0 or 1, and code 0 stands for 2^-127, the least power.
uint32_t encode_power(const ElementFormat& format, float x, const Rounder& rounder,
                      OverflowRule overflow) {
  const uint32_t u = float_bits(x);
  if (u == 0 || u > kFloatInf) return kE8m0NaN;  // zero, negative, NaN
  if (x <= pow2(-format.bias)) return 0;
  const FloatGrid grid{.mantissa_bits = 0, .bias = format.bias};
  const uint32_t code = u == kFloatInf ? kE8m0NaN : encode_magnitude(grid, u, rounder);
  if (code < kE8m0NaN) return code;
  return overflow == OverflowRule::saturate ? kE8m0NaN - 1 : kE8m0NaN;
}

/// floor(x + R·2^-r) for |x| < 2^8, exactly: x·2^r is cut to an integer toward minus infinity.
int64_t floor_stochastic(float x, const Rounder& rounder) {
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

uint32_t encode_integer(const ElementFormat& format, float x, const Rounder& rounder) {
  const int32_t largest = largest_integer(format);
  const int32_t least = format.is_signed ? -largest : 0;
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << format.bits) - 1);
  if (std::isnan(x)) return static_cast<uint32_t>(largest);
  // Within this bound every rounding is exact; beyond it the result is clamped in any case.
  const float limit = static_cast<float>(largest) + 1.0f;
  const float t = std::clamp(x * static_cast<float>(1 << format.mantissa_bits), -limit, limit);
  int64_t i = 0;
  if (rounder.mode == RoundMode::sr && format.mantissa_bits == 0) {
    i = floor_stochastic(t, rounder);
  } else {
    // An integer grid is the subnormal range of a floating format with ulp 1.
    const FloatGrid grid{.mantissa_bits = 23, .bias = -22};
    i = encode_magnitude(grid, float_bits(t) & 0x7FFFFFFFu, rounder);
    if (t < 0) i = -i;
  }
  return static_cast<uint32_t>(std::clamp<int64_t>(i, least, largest)) & mask;
}

float decode_integer(const ElementFormat& format, uint32_t code) {
  const int unused = 32 - format.bits;
  const auto shifted = code << unused;
  const float i = format.is_signed ? static_cast<float>(static_cast<int32_t>(shifted) >> unused)
                                   : static_cast<float>(shifted >> unused);
  return i / static_cast<float>(1 << format.mantissa_bits);
}

}  // namespace

FloatGrid grid_of(const ElementFormat& format) {
  NG_CHECK(format.kind == ElementKind::floating, format.name);
  FloatGrid grid{.mantissa_bits = format.mantissa_bits, .bias = format.bias};
  const int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  const uint32_t all_ones = static_cast<uint32_t>((uint64_t{1} << magnitude_bits) - 1);
  if (format.is_signed) grid.sign_mask = 1u << magnitude_bits;
  switch (format.specials) {
    case Specials::ieee:
      grid.inf_code = all_ones & ~((1u << format.mantissa_bits) - 1);
      grid.max_code = grid.inf_code - 1;
      if (format.mantissa_bits > 0) grid.nan_code = all_ones;
      break;
    case Specials::fn:
      grid.max_code = all_ones - 1;
      grid.nan_code = all_ones;
      break;
    case Specials::fnuz:
      grid.max_code = all_ones;
      grid.nan_code = grid.sign_mask;
      grid.negative_zero = false;
      break;
    case Specials::none:
      grid.max_code = all_ones;
      break;
  }
  return grid;
}

float max_value(const ElementFormat& format) {
  switch (format.kind) {
    case ElementKind::power:
      return decode(format, kE8m0NaN - 1);
    case ElementKind::integer:
      return decode(format, static_cast<uint32_t>(largest_integer(format)));
    default:
      return decode(format, grid_of(format).max_code);
  }
}

int emax(const ElementFormat& format) { return floor_log2(max_value(format)); }

float min_normal(const ElementFormat& format) {
  if (format.kind != ElementKind::floating) return min_subnormal(format);
  return decode(format, 1u << format.mantissa_bits);
}

float min_subnormal(const ElementFormat& format) {
  return decode(format, format.kind == ElementKind::power ? 0 : 1);
}

bool has_subnormals(const ElementFormat& format) {
  return format.kind == ElementKind::floating && format.mantissa_bits > 0 &&
         std::isfinite(min_normal(format));
}

uint64_t code_count(const ElementFormat& format) {
  const bool spare_sign = format.kind == ElementKind::floating && !format.is_signed;
  return uint64_t{1} << (spare_sign ? format.bits - 1 : format.bits);
}

float decode(const ElementFormat& format, uint32_t code) {
  return ElementCodec(format).decode(code);
}

std::vector<float> decode_table(const ElementFormat& format) {
  NG_CHECK(format.bits <= 16, format.name);
  const ElementCodec codec(format);
  std::vector<float> values(code_count(format));
  for (uint32_t code = 0; code < values.size(); ++code) values[code] = codec.decode(code);
  return values;
}

uint32_t encode(const ElementFormat& format, float x, const Rounder& rounder,
                OverflowRule overflow) {
  return ElementCodec(format).encode(x, rounder, overflow);
}

bool is_zero_code(const ElementFormat& format, uint32_t code) {
  return ElementCodec(format).is_zero_code(code);
}

ElementCodec::ElementCodec(const ElementFormat& format, Subnormals subnormals)
    : format_(&format), code_count_(ng::code_count(format)) {
  if (format.kind == ElementKind::floating) grid_ = grid_of(format);
  if (subnormals == Subnormals::flush && has_subnormals(format))
    least_code_ = 1u << format.mantissa_bits;
}

uint32_t ElementCodec::encode(float x, const Rounder& rounder, OverflowRule overflow) const {
  switch (format_->kind) {
    case ElementKind::power:
      return encode_power(*format_, x, rounder, overflow);
    case ElementKind::integer:
      return encode_integer(*format_, x, rounder);
    default:
      break;
  }
  if (!format_->is_signed && x < 0) return 0;
  const uint32_t code = encode_float(grid_, x, rounder, overflow);
  const uint32_t magnitude = code & ~grid_.sign_mask;
  if (magnitude == 0 || magnitude >= least_code_) return code;
  return grid_.negative_zero ? code & grid_.sign_mask : 0;
}

float ElementCodec::decode(uint32_t code) const {
  NG_CHECK(code < code_count_, format_->name, code);
  switch (format_->kind) {
    case ElementKind::power:
      return code == kE8m0NaN ? std::numeric_limits<float>::quiet_NaN()
                              : pow2(static_cast<int>(code) - format_->bias);
    case ElementKind::integer:
      return decode_integer(*format_, code);
    default:
      return decode_float(grid_, code);
  }
}

ElementRange range_of(const ElementFormat& format) {
  return {.max = max_value(format), .emax = emax(format), .mantissa_bits = format.mantissa_bits};
}

}  // namespace ng
