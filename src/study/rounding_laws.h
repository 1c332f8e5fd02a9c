// Mean and variance of rounding one number, exactly: over all random integers instead of over
// draws. [formats.md §2.3]
#pragma once

#include <cstdint>

#include "math/round.h"

namespace ng::study {

/// The neighbours that x, 0 <= x <= max, lies between, and what distinguishes a rounding.
struct Rounded {
  double low = 0;   ///< largest value of the format <= x
  double high = 0;  ///< the one above; = low where x is a value of the format
  double mean = 0;
  double variance = 0;

  /// Distance of the neighbours.
  [[nodiscard]] double ulp() const { return high - low; }
};

/// How many of the 2^bits random integers R round x up, by bisection: the result never falls with
/// R.
[[nodiscard]] uint64_t ups(const FloatGrid& grid, float x, int bits);

/// Where stochastic rounding takes x >= 0 to: up with this probability, else low; above the largest
/// value both are that.
struct Chance {
  double low = 0, high = 0;
  double up = 0;  ///< floor(f·2^bits) / 2^bits, f the place of x between the two
};
/// The same as stochastic_law without a search: quick enough for whole tensors.
[[nodiscard]] Chance stochastic_chance(const FloatGrid& grid, float x, int bits);

[[nodiscard]] Rounded nearest_law(const FloatGrid& grid, float x);
[[nodiscard]] Rounded stochastic_law(const FloatGrid& grid, float x, int bits);
/// Dither: nearest of x + δ·ulp(x), δ = (h + ½)/2^16 - ½ over all 16-bit h.
[[nodiscard]] Rounded dithered_law(const FloatGrid& grid, float x);

}  // namespace ng::study
