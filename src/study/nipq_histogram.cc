#include "study/nipq_histogram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ng::study {

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
