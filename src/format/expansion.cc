#include "format/expansion.h"

#include <limits>

namespace ng {
namespace {

/// (number · scale)^(1/power) · center of all such numbers.
class Powers {
 public:
  explicit Powers(const Expansion& e) {
    const ExpansionFactors factors(e);
    for (int i = 0; i < kSixteenths; ++i)
      of_sixteenths_[static_cast<size_t>(i)] = factors.of_sixteenths(i);
    const double up = factors.step(true), down = factors.step(false);
    exponent(0) = 1;
    for (int i = 1; i <= kMostExponent; ++i) exponent(i) = exponent(i - 1) * up;
    for (int i = -1; i >= kLeastExponent; --i) exponent(i) = exponent(i + 1) * down;
  }
  [[nodiscard]] double of(const SixteenthsOfPower& number) const {
    return of_sixteenths_[static_cast<size_t>(number.sixteenths)] *
           of_exponent_[static_cast<size_t>(number.exponent - kLeastExponent)];
  }

 private:
  double& exponent(int e) { return of_exponent_[static_cast<size_t>(e - kLeastExponent)]; }

  std::array<double, kSixteenths> of_sixteenths_;
  std::array<double, kMostExponent - kLeastExponent + 1> of_exponent_;
};

}  // namespace

ExpandedValues::ExpandedValues(const Expansion& expansion) {
  const Powers powers(expansion);
  values_[0] = 0;
  for (uint32_t code = 1; code < kExpandedCodes; ++code)
    values_[code] = static_cast<float>(powers.of(sixteenths_of(e4m3_number(code))));
  values_[kExpandedCodes] = std::numeric_limits<float>::quiet_NaN();
}

ExpandedLimits::ExpandedLimits(const Expansion& expansion) {
  const Powers powers(expansion);
  for (uint32_t code = 0; code + 1 < kExpandedCodes; ++code)
    limits_[code] = bits_not_above(powers.of(sixteenths_of(e4m3_halfway(code))));
  limits_[kExpandedCodes - 1] = limits_[kExpandedCodes] = static_cast<int32_t>(kFloatInf);
}

}  // namespace ng
