#include "study/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/median.h"
#include "study/mean.h"

namespace ng::study {
namespace {

constexpr double kDeviationsOfMedian = 1.4826;  // 1/Φ⁻¹(¾): σ of a normal over its median |x - µ|

double robust_deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return kDeviationsOfMedian * median(distances);
}

// Of the steps from `first` on; the first loss has nothing before it.
std::vector<double> excesses(std::span<const double> losses, int64_t first) {
  std::vector<double> found;
  double average = kNone;
  for (size_t t = 0; t < losses.size(); ++t) {
    const double loss = losses[t];
    if (!std::isfinite(loss)) continue;
    if (std::isnan(average)) {
      average = loss;
      continue;
    }
    const double excess = loss - average;
    if (static_cast<int64_t>(t) >= first) found.push_back(excess);
    average += kSpikeWeight * excess;
  }
  return found;
}

}  // namespace

double final_loss(std::span<const double> losses) {
  if (losses.empty()) return kNone;
  Mean mean;
  for (const double loss : losses.last(std::max<size_t>(losses.size() / 10, 1))) mean.add(loss);
  return mean.mean();
}

LossSpikes loss_spikes(std::span<const double> losses, int64_t first) {
  const std::vector<double> found = excesses(losses, first);
  if (found.empty()) return {};
  LossSpikes spikes{.count = 0,
                    .largest = std::max(*std::max_element(found.begin(), found.end()), 0.0),
                    .deviation = robust_deviation(found)};
  for (const double excess : found)
    if (excess > kSpikeDeviations * spikes.deviation) ++spikes.count;
  return spikes;
}

bool exceeds_start(std::span<const double> losses, int64_t first) {
  for (auto t = static_cast<size_t>(first); t < losses.size(); ++t)
    if (losses[t] > losses.front()) return true;
  return false;
}

double largest_over_median(std::span<const double> values) {
  if (values.empty()) return kNone;
  return *std::max_element(values.begin(), values.end()) /
         median(std::vector<double>(values.begin(), values.end()));
}

}  // namespace ng::study
