// The step of precision-aware updates: α with f(α) = ‖RN(w + αu) - w‖ nearest to lr·‖u‖. f is a
// step function that never falls. [recipes.md §5; errata-2, 23]
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace ng {

/// A value of α to try.
struct StepProbe {
  float alpha = 0;
  float lo = 0;  ///< f(lo) < target, or 0
  float hi = 0;  ///< f(hi) >= target; 0: none is known yet
};

/// The probe whose norm is nearest to the target, the first of equals; no step is one of them.
class BestStep {
 public:
  NG_HD BestStep(double target, double rtol) : target_(target), rtol_(rtol) {}
  /// Whether it is near enough to end the search.
  NG_HD bool take(float alpha, double norm) {
    const double error = std::fabs(norm / target_ - 1);
    if (error < error_) {
      error_ = error;
      alpha_ = alpha;
    }
    return error < rtol_;
  }
  [[nodiscard]] NG_HD float alpha() const { return alpha_; }

 private:
  double target_, rtol_;
  double error_ = 1;  // that of no step
  float alpha_ = 0;
};

/// How the step is found.
enum class StepSearch : uint8_t {
  norms,    ///< search_step
  printed,  ///< search_step_as_printed
};

/// The algorithm of source 000 to the letter: halves [0, 1] until f² is near lr·‖u‖², and takes the
/// last try. `target` is lr·‖u‖² > 0, √lr/lr times as long a step as lr·u; `max_iters` > 0.
template <class NormAt>
[[nodiscard]] NG_HD float search_step_as_printed(const NormAt& norm_at, double target, double rtol,
                                                 int max_iters) {
  float alpha = 0, lo = 0, hi = 1;
  for (int i = 0; i < max_iters; ++i) {
    alpha = (lo + hi) / 2;
    const double norm = norm_at(StepProbe{.alpha = alpha, .lo = lo, .hi = hi});
    const double squares = norm * norm;
    if (std::fabs(squares / target - 1) < rtol) break;
    (squares < target ? lo : hi) = alpha;
  }
  return alpha;
}

/// Doubles lr until f reaches the target, then bisects. `norm_at(StepProbe)` is f. target > 0.
template <class NormAt>
[[nodiscard]] NG_HD float search_step(const NormAt& norm_at, float lr, double target, double rtol,
                                      int max_iters) {
  constexpr int kMostDoublings = 60;
  BestStep best(target, rtol);
  float lo = 0, hi = lr;
  for (int doublings = 0;; ++doublings) {
    const double norm = norm_at(StepProbe{.alpha = hi, .lo = lo});
    if (best.take(hi, norm)) return best.alpha();
    if (norm >= target) break;
    if (doublings == kMostDoublings) return best.alpha();
    lo = hi;
    hi *= 2;
  }
  for (int i = 0; i < max_iters; ++i) {
    const float mid = (lo + hi) / 2;
    if (mid == lo || mid == hi) break;
    const double norm = norm_at(StepProbe{.alpha = mid, .lo = lo, .hi = hi});
    if (best.take(mid, norm)) break;
    (norm < target ? lo : hi) = mid;
  }
  return best.alpha();
}

}  // namespace ng
