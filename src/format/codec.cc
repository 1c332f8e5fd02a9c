#include "format/codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "format/scale.h"

namespace ng {
namespace {

constexpr uint32_t kE8m0NaN = 0xFF;

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

IntegerGrid integer_grid_of(const ElementFormat& format) {
  NG_CHECK(format.kind == ElementKind::integer, format.name);
  return {format.bits, format.mantissa_bits, format.is_signed};
}

float max_value(const ElementFormat& format) {
  switch (format.kind) {
    case ElementKind::power:
      return decode(format, kE8m0NaN - 1);
    case ElementKind::integer:
      return decode(format, static_cast<uint32_t>(integer_grid_of(format).largest()));
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

uint32_t least_kept_code(const ElementFormat& format, Subnormals subnormals) {
  return subnormals == Subnormals::flush && has_subnormals(format) ? 1u << format.mantissa_bits : 0;
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
  if (format.kind == ElementKind::integer) integers_ = integer_grid_of(format);
  least_code_ = least_kept_code(format, subnormals);
}

uint32_t ElementCodec::encode(float x, const Rounder& rounder, OverflowRule overflow) const {
  switch (format_->kind) {
    case ElementKind::power:
      return encode_power(*format_, x, rounder, overflow);
    case ElementKind::integer:
      return encode_integer(integers_, x, rounder);
    default:
      break;
  }
  if (!format_->is_signed && x < 0) return 0;
  return flushed_code(grid_, encode_float(grid_, x, rounder, overflow), least_code_);
}

float ElementCodec::decode(uint32_t code) const {
  NG_CHECK(code < code_count_, format_->name, code);
  switch (format_->kind) {
    case ElementKind::power:
      return code == kE8m0NaN ? std::numeric_limits<float>::quiet_NaN()
                              : pow2(static_cast<int>(code) - format_->bias);
    case ElementKind::integer:
      return decode_integer(integers_, code);
    default:
      return decode_float(grid_, code);
  }
}

ElementRange range_of(const ElementFormat& format) {
  return {.max = max_value(format), .emax = emax(format), .mantissa_bits = format.mantissa_bits};
}

}  // namespace ng
