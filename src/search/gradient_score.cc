#include "search/gradient_score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace ng::search {
namespace {

/// How many are smaller than each; what is not finite is larger than all else.
std::vector<size_t> ranks_of(std::vector<double> values) {
  for (double& value : values)
    if (!std::isfinite(value)) value = std::numeric_limits<double>::infinity();
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  std::vector<size_t> ranks;
  for (const double value : values)
    ranks.push_back(static_cast<size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin()));
  return ranks;
}

}  // namespace

double GradientScore::moment_error(double beta1) const {
  return std::sqrt(bias * bias + noise * noise * (1 - beta1) / (1 + beta1));
}

GradientScore score_of(const study::GradientErrors& errors) {
  const double square = errors.all.error.mean_square(), loss = errors.loss.mean();
  if (!std::isfinite(square)) return {.bias = square, .noise = square, .loss = loss};
  const double bias = errors.all.bias;
  return {.bias = bias, .noise = std::sqrt(std::max(0.0, square - bias * bias)), .loss = loss};
}

std::vector<size_t> in_order(std::span<const GradientScore> scores, double beta1) {
  std::vector<double> errors, losses;
  for (const GradientScore& score : scores) {
    errors.push_back(score.moment_error(beta1));
    losses.push_back(std::fabs(score.loss));
  }
  const std::vector<size_t> by_error = ranks_of(errors), by_loss = ranks_of(losses);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    return std::tuple(std::max(by_error[i], by_loss[i]), by_error[i]);
  });
  return order;
}

}  // namespace ng::search
