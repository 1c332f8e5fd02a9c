#include "format/rounding_steps.h"

#include <algorithm>
#include <cmath>

namespace ng {
namespace {

struct Mode {
  RoundMode mode;
  std::string_view name;
  std::string_view rule;
};
constexpr Mode kModes[] = {{RoundMode::rne, "nearest even", "f > 1/2; = 1/2: n odd"},
                           {RoundMode::rna, "half away", "f >= 1/2"},
                           {RoundMode::rtz, "toward zero", "never"},
                           {RoundMode::rup, "up (scales)", "f > 0"}};
constexpr int kDrawBits[] = {8, 16, 32};

bool goes_up(RoundMode mode, double n, double f) {
  switch (mode) {
    case RoundMode::rne:
      return f > 0.5 || (f == 0.5 && std::fmod(n, 2.0) != 0);
    case RoundMode::rna:
      return f >= 0.5;
    case RoundMode::rup:
      return f > 0;
    default:
      return false;
  }
}

bool is_plain_integer(const ElementFormat& f) {
  return f.kind == ElementKind::integer && f.mantissa_bits == 0;
}

/// |x| as t · 2^q with t = significand · 2^-shift, and t = n + f.
void place_on_grid(RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  const float magnitude = std::fabs(s.x);
  s.e = floor_log2(magnitude);
  s.significand = significand_of(magnitude);
  const int last = s.e - 23;  // exponent of the significand's last bit
  if (f.kind == ElementKind::integer) {
    s.q = -f.mantissa_bits;
  } else {
    s.e = std::max(s.e, 1 - f.bias);
    s.q = s.e - f.mantissa_bits;
  }
  s.shift = s.q - last;
  s.t = std::ldexp(static_cast<double>(s.significand), -s.shift);
  s.n = std::floor(s.t);
  s.f = s.t - s.n;
  const double sign = s.x < 0 ? -1 : 1;
  s.below = sign * std::ldexp(s.n, s.q);
  s.above = sign * std::ldexp(s.n + 1, s.q);
}

/// F and the exact mean over all draws of r bits: n + F · 2^-r steps, cut at the largest value.
StochasticOdds stochastic_of(const RoundingSteps& s, int bits) {
  const ElementFormat& f = *s.format;
  const double draws = std::ldexp(1.0, bits);
  StochasticOdds result{.bits = bits};
  const double largest = max_value(f);
  if (s.floors) {
    const double scaled = std::floor(std::clamp<double>(s.x, -512, 512) * draws);
    const double whole = std::floor(scaled / draws);
    result.ups = static_cast<uint64_t>(scaled - whole * draws);
    const double least = f.is_signed ? -largest : 0;
    const double low = std::clamp(whole, least, largest);
    const double high = std::clamp(whole + 1, least, largest);
    result.expectation = low + (high - low) * (static_cast<double>(result.ups) / draws);
    return result;
  }
  result.ups = static_cast<uint64_t>(std::floor(s.f * draws));
  const double low = std::clamp<double>(s.below, -largest, largest);
  const double high = std::clamp<double>(s.above, -largest, largest);
  result.expectation = low + (high - low) * (static_cast<double>(result.ups) / draws);
  if (s.x < 0 && !f.is_signed) result.expectation = 0;
  return result;
}

}  // namespace

RoundingSteps rounding_steps(const ElementFormat& format, float x) {
  RoundingSteps s;
  s.format = &format;
  s.x = x;
  const bool positive_only = format.kind == ElementKind::power || !format.is_signed;
  const bool least_power = format.kind == ElementKind::power && s.x <= pow2(1 - format.bias);
  s.on_grid = std::isfinite(s.x) && s.x != 0 && !least_power && !(positive_only && s.x < 0);
  s.floors = is_plain_integer(format);
  if (s.on_grid) place_on_grid(s);
  for (const Mode& m : kModes)
    s.modes.push_back({.mode = m.name,
                       .rule = m.rule,
                       .up = s.on_grid && goes_up(m.mode, s.n, s.f),
                       .saturate = encode(format, s.x, {.mode = m.mode}, OverflowRule::saturate),
                       .special = encode(format, s.x, {.mode = m.mode}, OverflowRule::special)});
  for (size_t i = 0; i < s.stochastic.size() && s.on_grid; ++i)
    s.stochastic[i] = stochastic_of(s, kDrawBits[i]);
  s.through_bf16 = round_to_bf16(s.x);
  s.code_through_bf16 = encode(format, s.through_bf16);
  return s;
}

}  // namespace ng
