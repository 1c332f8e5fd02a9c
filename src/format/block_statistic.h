// What a block's scale may be made of instead of its largest magnitude. [linear.md 6]
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "format/operand.h"

namespace ng {

/// Σ in FP64 by eight lanes: value i of a block, row by row, goes to lane i % 8; lanes fold by +4,
/// +2, +1.
class LaneSum {
 public:
  void add(int64_t i, double value) { lanes_[static_cast<size_t>(i & 7)] += value; }
  [[nodiscard]] double total() const {
    std::array<double, 8> lanes = lanes_;
    for (size_t step = 4; step > 0; step /= 2)
      for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
    return lanes[0];
  }

 private:
  std::array<double, 8> lanes_{};
};

/// The scale, not yet rounded to what it is stored as, of a block of `count` finite values of which
/// `amax` > 0 is the largest magnitude. `for_each(use)` calls use(i, value) for all of them.
/// mean_abs: their mean magnitude, of ternary elements at least 1e-5. rms: 2.92247856 deviations
/// from their mean, at which E2M1's clipping errs least on normal values, over the largest element;
/// where that is 0, amax over it.
template <class ForEach>
[[nodiscard]] float scale_statistic(const Operand& cast, float element_max, float amax,
                                    int64_t count, const ForEach& for_each) {
  const auto n = static_cast<double>(count);
  const auto mean = [&](const auto& term) {
    LaneSum sum;
    for_each([&](int64_t i, float x) { sum.add(i, term(double{x})); });
    return sum.total() / n;
  };
  if (cast.scale_of == ScaleOf::mean_abs) {
    const auto t = static_cast<float>(mean([](double x) { return std::fabs(x); }));
    return cast.element->short_name == "ternary" && t < 1e-5f ? 1e-5f : t;
  }
  constexpr double kDeviations = 2.92247856;
  const double middle = mean([](double x) { return x; });
  const double deviation = std::sqrt(mean([=](double x) { return (x - middle) * (x - middle); }));
  const auto t = static_cast<float>(kDeviations * deviation / double{element_max});
  return t > 0 ? t : amax / element_max;
}

}  // namespace ng
