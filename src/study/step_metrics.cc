#include "study/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "format/codec.h"
#include "study/rounding_laws.h"

namespace ng::study {
namespace {

constexpr int64_t kMetricsChunk = 1 << 14;  // elements that one FP64 chain sums

/// Sums over elements, of one draw or of its expectation.
struct Sums {
  double update = 0;   ///< Σ Δ²
  double target = 0;   ///< Σ Δ*²
  double product = 0;  ///< Σ Δ·Δ*
  double error = 0;    ///< Σ |Δ - Δ*|
  double asked = 0;    ///< Σ |Δ*|
  double changed = 0;

  /// A weight that moves by `moved` with this probability.
  void add(double moved, double wanted, double probability) {
    update += probability * moved * moved;
    product += probability * moved * wanted;
    error += probability * std::abs(moved - wanted);
    if (moved != 0) changed += probability;
  }
  void add_target(double wanted) {
    target += wanted * wanted;
    asked += std::abs(wanted);
  }
  Sums& operator+=(const Sums& other) {
    update += other.update;
    target += other.target;
    product += other.product;
    error += other.error;
    asked += other.asked;
    changed += other.changed;
    return *this;
  }
};

/// Sums that body(i, sums) adds element by element.
template <class Body>
Sums sums_over(size_t size, Threads threads, const Body& body) {
  const auto count = static_cast<int64_t>(size);
  std::vector<Sums> chunks(static_cast<size_t>((count + kMetricsChunk - 1) / kMetricsChunk));
  parallel_for(threads, std::ssize(chunks), [&](int64_t c, int) {
    Sums sums;
    for (int64_t i = c * kMetricsChunk; i < std::min(count, (c + 1) * kMetricsChunk); ++i)
      body(static_cast<size_t>(i), sums);
    chunks[static_cast<size_t>(c)] = sums;
  });
  Sums all;
  for (const Sums& sums : chunks) all += sums;
  return all;
}

StepMetrics metrics_of(const Sums& sums, size_t count) {
  const double update = std::sqrt(sums.update), target = std::sqrt(sums.target);
  return {.rho = update / target,
          .pi = sums.product / sums.target,
          .eps = sums.error / sums.asked,
          .changed = sums.changed / static_cast<double>(count),
          .cosine = update == 0 ? 0 : sums.product / (update * target),
          .lost_norm = target - update,
          .median_ratio = std::nan("")};
}

// The middle value, or the mean of the two in the middle; NaN of none.
double median_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  const auto half = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

}  // namespace

StepMetrics metrics_of(const Step& step, Threads threads) {
  NG_CHECK(step.before.size() == step.u.size() && step.after.size() == step.u.size(),
           step.before.size(), step.after.size(), step.u.size());
  const auto moved = [&](size_t i) { return step.after[i] - step.before[i]; };
  const Sums sums = sums_over(step.u.size(), threads, [&](size_t i, Sums& to) {
    const double wanted = static_cast<double>(step.lr) * step.u[i];
    to.add(moved(i), wanted, 1);
    to.add_target(wanted);
  });
  StepMetrics metrics = metrics_of(sums, step.u.size());
  std::vector<double> ratios;
  ratios.reserve(step.u.size());
  for (size_t i = 0; i < step.u.size(); ++i)
    if (step.u[i] != 0) ratios.push_back(-moved(i) / step.u[i]);
  metrics.median_ratio = median_of(std::move(ratios));
  return metrics;
}

StepMetrics expected_metrics(std::span<const float> w, std::span<const float> u, float lr,
                             const Operand& cast, float encode_scale, Threads threads) {
  NG_CHECK(w.size() == u.size(), w.size(), u.size());
  const FloatGrid grid = grid_of(*cast.element);
  const Sums sums = sums_over(u.size(), threads, [&](size_t i, Sums& to) {
    const double wanted = static_cast<double>(lr) * u[i];
    const float x = w[i] + lr * u[i];  // each operation rounded once [errata-2, 20]
    const Chance chance = stochastic_chance(grid, std::fabs(x) * encode_scale, 16);
    const auto moved = [&](double magnitude) {
      return std::copysign(magnitude / encode_scale, x) - w[i];
    };
    to.add(moved(chance.low), wanted, 1 - chance.up);
    to.add(moved(chance.high), wanted, chance.up);
    to.add_target(wanted);
  });
  return metrics_of(sums, u.size());
}

}  // namespace ng::study
