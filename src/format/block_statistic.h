// What a block's scale may be made of instead of its largest magnitude. [linear.md 6]
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "format/operand.h"

namespace ng {

/// Σ in FP64 by eight lanes: value i of a block, row by row, goes to lane i % 8; lanes fold by +4,
/// +2, +1.
class LaneSum {
 public:
  NG_HD void add(int64_t i, double value) { lanes_[i & 7] += value; }
  /// term(x) of values i ... i + 7, i a multiple of 8: independent sums, which compilers vectorize.
  template <class Term>
  NG_HD void add_eight(const float* x, const Term& term) {
    for (int lane = 0; lane < 8; ++lane) lanes_[lane] += term(double{x[lane]});
  }
  [[nodiscard]] NG_HD double total() const {
    const double left = (lanes_[0] + lanes_[4]) + (lanes_[2] + lanes_[6]);
    return left + ((lanes_[1] + lanes_[5]) + (lanes_[3] + lanes_[7]));
  }

 private:
  double lanes_[8] = {};
};

/// What of a block a scale is made of, and the least that a mean is taken for.
struct Statistic {
  ScaleOf of = ScaleOf::amax;
  float least = 0;

  /// Whether the scale of finite values of which `amax` is the largest magnitude is made of them:
  /// zeros alone have a mean that divides only where there is a least one.
  [[nodiscard]] NG_HD bool is_of(float amax) const { return amax > 0 || least > 0; }
};
/// Of ternary elements a mean is at least 1e-5. [BitNet b1.58]
[[nodiscard]] inline Statistic statistic_rule(const Operand& cast) {
  return {cast.scale_of, cast.element->short_name == "ternary" ? 1e-5f : 0.0f};
}

/// Σ term(x) of what for_each of scale_statistic() calls it with: a value and its place, or eight
/// in a row, the first place a multiple of 8.
template <class Term>
struct TermSum {
  LaneSum& sum;
  const Term& term;
  NG_HD void operator()(int64_t i, float x) const { sum.add(i, term(double{x})); }
  NG_HD void eight(const float* x) const { sum.add_eight(x, term); }
};

/// The scale, not yet rounded to what it is stored as, of a block of `count` finite values of which
/// `amax`, of which it is_of(), is the largest magnitude. `for_each(use)` calls use(i, value) for
/// all of them, or use.eight() for some. mean_abs: their mean magnitude. rms: 2.92247856 deviations
/// from their mean, at which E2M1's clipping errs least on normal values, over the largest element;
/// where that is 0, amax over it.
template <class ForEach>
[[nodiscard]] NG_HD float scale_statistic(const Statistic& statistic, float element_max, float amax,
                                          int64_t count, const ForEach& for_each) {
  const auto n = static_cast<double>(count);
  const auto mean = [&](const auto& term) {
    LaneSum sum;
    for_each(TermSum<std::remove_cvref_t<decltype(term)>>{sum, term});
    return sum.total() / n;
  };
  if (statistic.of == ScaleOf::mean_abs) {
    const auto t = static_cast<float>(mean([](double x) { return std::fabs(x); }));
    return t < statistic.least ? statistic.least : t;
  }
  constexpr double kDeviations = 2.92247856;
  const double middle = mean([](double x) { return x; });
  const double deviation = std::sqrt(mean([=](double x) { return (x - middle) * (x - middle); }));
  const auto t = static_cast<float>(kDeviations * deviation / double{element_max});
  return t > 0 ? t : amax / element_max;
}

}  // namespace ng
