// A power by which a block's values fill the range of E4M3: the code of x is that of E4M3's number
// nearest to y = (|x| / center)^power / scale, its value (|q| · scale)^(1/power) · center.
// [Xi et al. 2025, COAT, dynamic range expansion; linear.md 9]
//
// Neither takes a power for each value. The numbers of E4M3, and those halfway between them, are
// (1 + i/16) · 2^e, and a power of such a product is the product of two powers: 16 and two of a
// block make all that its codes stand for, and what lies halfway, in x. Logarithms and exponentials
// are our own in FP64, so that bits are the same on every machine.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "format/scale.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/round.h"

namespace ng {

/// What a block stores beside its codes.
struct Expansion {
  float scale = 1, power = 1, center = 1;
};

/// Of a block: the largest |x|, and the smallest that is not zero (0: there is none). 1e-30 is
/// added to both; the power is a multiple of 1/16, and 1 where they are equal.
[[nodiscard]] NG_HD inline Expansion expansion_of(float most, float least) {
  constexpr double kLargest = 448;  // of E4M3
  constexpr double kRange = kLargest * kLargest / 2;
  constexpr double kSteps = 16;  // of a power from one whole number to the next
  constexpr float kAdded = 1e-30f;
  const float high = most + kAdded, low = least + kAdded;
  Expansion e;
  if (high != low)
    e.power = static_cast<float>(
        std::floor(kSteps * math::log(kRange) / math::log(double{high} / low)) / kSteps);
  e.center = static_cast<float>(std::sqrt(double{high}) * std::sqrt(double{low}));
  const double top = math::exp(e.power * (math::log(double{high}) - math::log(double{e.center})));
  e.scale = static_cast<float>(top / kLargest);
  return e;
}

inline constexpr int kExpandedCodes = 127;  ///< of E4M3's magnitudes; one more is NaN's
/// Of E4M3's numbers, and of those halfway between them, but 0.
inline constexpr int kSixteenths = 16, kLeastExponent = -10, kMostExponent = 8;

/// (1 + sixteenths/16) · 2^exponent
struct SixteenthsOfPower {
  int sixteenths = 0, exponent = 0;
};
NG_HD constexpr SixteenthsOfPower sixteenths_of(float number) {
  return {static_cast<int>(float_bits(number) >> 19 & 15), floor_log2(number)};
}
/// E4M3's number of a code, and what is halfway from it to the next.
NG_HD constexpr float e4m3_number(uint32_t code) { return decode_float(e4m3_grid(), code); }
NG_HD constexpr float e4m3_halfway(uint32_t code) {
  return (e4m3_number(code) + e4m3_number(code + 1)) / 2;
}

/// (number · scale)^(1/power) · center as the product of a factor for the sixteenths of a number
/// and one for its power of two, which is made of as many steps up or down.
struct ExpansionFactors {
  double inverse, log_scale, center;

  NG_HD explicit ExpansionFactors(const Expansion& e)
      : inverse(1 / double{e.power}), log_scale(math::log(double{e.scale})), center(e.center) {}
  [[nodiscard]] NG_HD double of_sixteenths(int i) const {
    const double log_number = math::log(1 + double(i) / kSixteenths);
    return math::exp((log_number + log_scale) * inverse) * center;
  }
  [[nodiscard]] NG_HD double step(bool is_up) const {
    const double log_step = math::log(2.0) * inverse;
    return math::exp(is_up ? log_step : -log_step);
  }
};

/// Bits of the largest FP32 number that is not above x >= 0: FP32 numbers above it are above x.
NG_HD constexpr int32_t bits_not_above(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<int32_t>(float_bits(nearest)) - (nearest > x ? 1 : 0);
}

/// How many of 128 limits, bits of numbers in their order, are below |x|, with the sign of x.
template <class Limit>
[[nodiscard]] NG_HD uint8_t code_between(const Limit& limit, float x) {
  const uint32_t bits = float_bits(x);
  const auto magnitude = static_cast<int32_t>(bits & 0x7FFFFFFFu);
  uint32_t below = 0;  // by signs of differences: a branch here costs ten times as much
  for (uint32_t step = 64; step > 0; step /= 2)
    below += step & static_cast<uint32_t>((limit(below + step - 1) - magnitude) >> 31);
  return static_cast<uint8_t>(below | (bits >> 31 << 7));
}

/// What the codes of a block stand for.
class ExpandedValues {
 public:
  explicit ExpandedValues(const Expansion& expansion);
  [[nodiscard]] float value(uint8_t code) const {
    const float a = values_[code & 0x7F];
    return (code & 0x80) != 0 ? -a : a;
  }

 private:
  std::array<float, 128> values_;
};

/// What lies between the codes of a block.
class ExpandedLimits {
 public:
  explicit ExpandedLimits(const Expansion& expansion);
  /// Of the nearest number in y, the lower one of two: how many limits are below |x|, which is at
  /// most the largest of the block. Of NaN the code of NaN.
  [[nodiscard]] uint8_t code(float x) const {
    return code_between([this](uint32_t i) { return limits_[i]; }, x);
  }

 private:
  /// Bits of the largest FP32 numbers that are not above, which are ordered like them; infinite
  /// behind the last.
  std::array<int32_t, 128> limits_;
};

}  // namespace ng
