#include "format/expansion.h"

#include <cmath>
#include <limits>

#include "format/codec.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/round.h"

namespace ng {
namespace {

constexpr double kLargest = 448;  // of E4M3
constexpr double kRange = kLargest * kLargest / 2;
constexpr float kAdded = 1e-30f;
constexpr int kCodes = 127;  // of E4M3's magnitudes
constexpr int kSixteenths = 16, kLeastExponent = -10, kMostExponent = 8;

/// (1 + i/16) · 2^e
struct Factors {
  int sixteenths = 0, exponent = 0;
};

Factors factors_of(double number) {
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);  // in [1/2, 1)
  return {static_cast<int>((2 * fraction - 1) * kSixteenths), exponent - 1};
}

double e4m3(int code) { return decode(element_format("e4m3"), static_cast<uint32_t>(code)); }

/// Of code c > 0, and of what is halfway from it to the next.
struct Grid {
  std::array<Factors, kCodes> number{}, halfway{};

  static const Grid& of_e4m3() {
    static const Grid grid = [] {
      Grid made;
      for (int code = 0; code < kCodes; ++code) {
        const auto at = static_cast<size_t>(code);
        if (code > 0) made.number[at] = factors_of(e4m3(code));
        if (code + 1 < kCodes) made.halfway[at] = factors_of((e4m3(code) + e4m3(code + 1)) / 2);
      }
      return made;
    }();
    return grid;
  }
};

/// (number · scale)^(1/power) · center of all such numbers.
class Powers {
 public:
  explicit Powers(const Expansion& e) {
    const double inverse = 1 / double{e.power}, log_scale = math::log(double{e.scale});
    for (int i = 0; i < kSixteenths; ++i) {
      const double log_number = math::log(1 + double(i) / kSixteenths);
      of_sixteenths_[static_cast<size_t>(i)] =
          math::exp((log_number + log_scale) * inverse) * e.center;
    }
    const double log_step = math::log(2.0) * inverse;
    const double up = math::exp(log_step), down = math::exp(-log_step);
    exponent(0) = 1;
    for (int i = 1; i <= kMostExponent; ++i) exponent(i) = exponent(i - 1) * up;
    for (int i = -1; i >= kLeastExponent; --i) exponent(i) = exponent(i + 1) * down;
  }
  [[nodiscard]] double of(const Factors& number) const {
    return of_sixteenths_[static_cast<size_t>(number.sixteenths)] *
           of_exponent_[static_cast<size_t>(number.exponent - kLeastExponent)];
  }

 private:
  double& exponent(int e) { return of_exponent_[static_cast<size_t>(e - kLeastExponent)]; }

  std::array<double, kSixteenths> of_sixteenths_;
  std::array<double, kMostExponent - kLeastExponent + 1> of_exponent_;
};

/// Bits of the largest FP32 number that is not above x >= 0: FP32 numbers above it are above x.
int32_t bits_not_above(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<int32_t>(float_bits(nearest)) - (nearest > x ? 1 : 0);
}

}  // namespace

Expansion expansion_of(float most, float least) {
  constexpr double kSteps = 16;  // of a power from one whole number to the next
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

ExpandedValues::ExpandedValues(const Expansion& expansion) {
  const Powers powers(expansion);
  const Grid& grid = Grid::of_e4m3();
  values_[0] = 0;
  for (size_t code = 1; code < kCodes; ++code)
    values_[code] = static_cast<float>(powers.of(grid.number[code]));
  values_[kCodes] = std::numeric_limits<float>::quiet_NaN();
}

ExpandedLimits::ExpandedLimits(const Expansion& expansion) {
  const Powers powers(expansion);
  const Grid& grid = Grid::of_e4m3();
  for (size_t code = 0; code + 1 < kCodes; ++code)
    limits_[code] = bits_not_above(powers.of(grid.halfway[code]));
  limits_[kCodes - 1] = limits_[kCodes] = static_cast<int32_t>(kFloatInf);
}

}  // namespace ng
