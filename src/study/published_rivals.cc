#include "study/published_rivals.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/weight_noise.h"

namespace ng::study {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kSpan = OriginalDiffq::kMostBits - OriginalDiffq::kFewestBits;

}  // namespace

// ---------------------------------------------------------------- DiffQ

OriginalDiffq::OriginalDiffq(std::span<const float> w, std::span<const double> logits,
                             int64_t group)
    : w_(w.begin(), w.end()), group_(static_cast<size_t>(group)) {
  NG_CHECK(group > 0 && logits.size() * group_ == w.size(), w.size(), logits.size(), group);
  low_ = std::ranges::min(w_);
  range_ = std::ranges::max(w_) - low_;
  NG_CHECK(range_ > 0, range_);
  for (const double l : logits) {
    bits_.push_back(kFewestBits + kSpan * sigmoid(l));
    steps_.push_back(range_ / (math::exp(bits_.back() * kLn2) - 1));
  }
}

double OriginalDiffq::logit_of(double bits) {
  NG_CHECK(bits > kFewestBits && bits < kMostBits, bits);
  return math::log((bits - kFewestBits) / (kMostBits - bits));
}

std::vector<double> OriginalDiffq::noisy(std::span<const double> n) const {
  NG_CHECK(n.size() == w_.size(), n.size(), w_.size());
  std::vector<double> result = w_;
  for (size_t i = 0; i < result.size(); ++i) result[i] += steps_[i / group_] * n[i];
  return result;
}

std::vector<double> OriginalDiffq::evaluated() const {
  std::vector<double> result(w_.size());
  for (size_t i = 0; i < w_.size(); ++i) {
    const double most = std::ldexp(1.0, static_cast<int>(std::nearbyint(bits_[i / group_]))) - 1;
    const double level = std::nearbyint((w_[i] - low_) / range_ * most);
    result[i] = low_ + level / most * range_;
  }
  return result;
}

// ---------------------------------------------------------------- NIPQ

NipqHistogram::NipqHistogram(std::span<const float> w, double alpha, double delta) {
  NG_CHECK(delta > 0, delta);
  for (const float x : w) {
    if (!(std::fabs(static_cast<double>(x)) < alpha)) continue;
    const double units = x / delta;
    const double error = std::nearbyint(units) - units;
    const auto bin = static_cast<size_t>(std::floor((error + 0.5) * kBins));
    ++counts_[std::min(bin, kBins - 1)];  // the last bin has its upper end, too
    ++total_;
  }
}

double NipqHistogram::noise(double bin, double place) const {
  NG_CHECK(total_ > 0, total_);
  auto before = static_cast<int64_t>(bin * static_cast<double>(total_));
  size_t chosen = 0;
  while (before >= counts_[chosen]) before -= counts_[chosen++];
  return (static_cast<double>(chosen) + place) / kBins - 0.5;
}

double nipq_evaluated(double w, double alpha, double delta) {
  return std::clamp(delta * std::nearbyint(w / delta), -alpha, alpha);
}

}  // namespace ng::study
