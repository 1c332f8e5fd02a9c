// How far a rounded step is from the one that was asked for. [recipes.md §5, "Metrics of the
// study"]
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "format/operand.h"

namespace ng::study {

/// Of a step Δ = w' - w where Δ* = lr·u was asked for. Where u is zero everywhere: NaN, but for
/// `changed`.
struct StepMetrics {
  double rho = 0;           ///< ‖Δ‖/‖Δ*‖
  double pi = 0;            ///< ⟨Δ,Δ*⟩/‖Δ*‖²: 1 is unbiased
  double eps = 0;           ///< mean|Δ - Δ*| / mean|Δ*|
  double changed = 0;       ///< share of weights with Δ != 0
  double cosine = 0;        ///< of the angle between Δ and Δ*; 0 where nothing moved
  double lost_norm = 0;     ///< ‖Δ*‖ - ‖Δ‖, source 000's first figure
  double median_ratio = 0;  ///< of (w - w')/u where u is not 0, source 000's second
};

/// Weights before and after, and what was asked for; all of one size.
struct Step {
  std::span<const double> before, after;
  std::span<const float> u;
  float lr = 0;
};
/// FP64 sums; the bits do not depend on the thread count.
[[nodiscard]] StepMetrics metrics_of(const Step& step, Threads threads);

/// The same in expectation over the 16 bits of stochastic rounding, exactly: of w + fl(lr·u)
/// rounded into `cast`, elements multiplied by `encode_scale` on the way in. rho comes from the
/// root of E‖Δ‖², cosine from that and pi; median_ratio is NaN. [formats.md §2.3; errata-2, 25]
[[nodiscard]] StepMetrics expected_metrics(std::span<const float> w, std::span<const float> u,
                                           float lr, const Operand& cast, float encode_scale,
                                           Threads threads);

}  // namespace ng::study
