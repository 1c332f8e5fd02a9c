#include "study/rounding_laws.h"

#include <cmath>

#include "base/error.h"

namespace ng::study {
namespace {

double rounded(const FloatGrid& grid, float x, const Rounder& rounder) {
  return decode_float(grid, encode_float(grid, x, rounder, OverflowRule::saturate));
}

Rounded neighbours(const FloatGrid& grid, float x) {
  NG_CHECK(x >= 0 && x <= decode_float(grid, grid.max_code), x);
  return {.low = rounded(grid, x, {.mode = RoundMode::rtz}),
          .high = rounded(grid, x, {.mode = RoundMode::rup})};
}

}  // namespace

uint64_t ups(const FloatGrid& grid, float x, int bits) {
  const uint64_t count = uint64_t{1} << bits;
  const double low = rounded(grid, x, {.mode = RoundMode::rtz});
  uint64_t first_up = 0;
  for (uint64_t end = count; first_up < end;) {
    const uint64_t middle = (first_up + end) / 2;
    const Rounder rounder{RoundMode::sr, bits, static_cast<uint32_t>(middle)};
    if (rounded(grid, x, rounder) > low)
      end = middle;
    else
      first_up = middle + 1;
  }
  return count - first_up;
}

Chance stochastic_chance(const FloatGrid& grid, float x, int bits) {
  const uint32_t code = encode_float(grid, x, {.mode = RoundMode::rtz}, OverflowRule::saturate);
  const double low = decode_float(grid, code);
  if (code == grid.max_code) return {low, low, 0};
  const double high = decode_float(grid, code + 1);
  return {low, high, std::ldexp(std::floor(std::ldexp((x - low) / (high - low), bits)), -bits)};
}

Rounded nearest_law(const FloatGrid& grid, float x) {
  Rounded law = neighbours(grid, x);
  law.mean = rounded(grid, x, {});
  return law;
}

Rounded stochastic_law(const FloatGrid& grid, float x, int bits) {
  Rounded law = neighbours(grid, x);
  const double up =
      static_cast<double>(ups(grid, x, bits)) / static_cast<double>(uint64_t{1} << bits);
  law.mean = law.low + up * law.ulp();
  law.variance = up * (1 - up) * law.ulp() * law.ulp();
  return law;
}

Rounded dithered_law(const FloatGrid& grid, float x) {
  constexpr int kCount = 1 << 16;
  Rounded law = neighbours(grid, x);
  double sum = 0;
  double squares = 0;
  for (int h = 0; h < kCount; ++h) {
    const double delta = (h + 0.5) / kCount - 0.5;
    const double q = rounded(grid, static_cast<float>(x + delta * law.ulp()), {});
    sum += q;
    squares += q * q;
  }
  law.mean = sum / kCount;
  law.variance = squares / kCount - law.mean * law.mean;
  return law;
}

}  // namespace ng::study
