// The decision of a step, and what of it needs no look at the values: scalar arithmetic, so one
// definition serves all backends, on the host and on a card.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/operations.h"

namespace ng {

NG_HD inline void decide_step(const DecideStep& op) {
  StepControl& control = *op.control;
  control.grad_norm = std::sqrt(*op.sum_of_squares);
  bool is_good = std::isfinite(control.loss) && std::isfinite(control.grad_norm);
  for (int64_t i = 0; i < op.stats_count; ++i)
    is_good = is_good && op.stats[i].nan == 0 && op.stats[i].inf == 0;
  control.skip = is_good ? 0 : 1;
  control.grad_scale = 1;
  if (op.clip > 0 && std::isfinite(control.grad_norm))
    control.grad_scale = static_cast<float>(std::min(1.0, op.clip / (control.grad_norm + 1e-6)));
}

/// The largest magnitude that a moment holds: of its format, or of FP32 where scales follow.
[[nodiscard]] float largest_of_moment(const Stored& moment);

/// The largest magnitudes that the moments of an update hold.
struct MomentLimits {
  explicit MomentLimits(const Update& op)
      : first(largest_of_moment(op.moment1)), second(largest_of_moment(op.moment2)) {}
  float first, second;
};

/// Whether the norm of the clipped gradients alone says that no state of an update overflows, in
/// which case nobody need look at its values. They do not in any step of a usual run. False says
/// nothing.
///
/// Adam's moments are means of g and g² with weights that sum to 1: where neither leaves the
/// format, no mean of it and of what is stored does. Steps taken before were checked too, so that
/// |m| is at most sqrt(MAX₂ / (1 - β2)), which bounds the step, whatever v is, by the division by
/// ε.
[[nodiscard]] NG_HD inline bool surely_fits(OptimizerRule rule, const OptimizerNumbers& n,
                                            const MomentLimits& limits,
                                            const StepControl& control) {
  constexpr double kFarFromInfinity = 0x1p120;  // a bound of FP32's 2^128 and of sums of weights
  const double g = control.grad_norm * double{control.grad_scale};
  const double most1 = limits.first, most2 = limits.second;
  if (!(double{n.lr} * n.weight_decay <= 2)) return false;  // the weight itself would grow
  switch (rule) {
    case OptimizerRule::adamw:
    case OptimizerRule::adam_mini: {
      const double m = std::min(most1, std::sqrt(most2 / (1 - double{n.beta2})));
      const double step = double{n.lr} * m / (double{n.correction1} * double{n.eps});
      return g <= most1 && g * g <= most2 && step <= kFarFromInfinity;
    }
    case OptimizerRule::sgd: {
      constexpr double kLargestSeen = 0x1p100;  // of gradients in the steps before
      const double m = std::min(most1, kLargestSeen / (1 - double{n.beta1}));
      return g <= std::min((1 - double{n.beta1}) * most1, double{kLargestSeen}) &&
             double{n.lr} * m <= kFarFromInfinity;
    }
    case OptimizerRule::muon:
    case OptimizerRule::direction:
      break;  // the step knows no norm
  }
  return false;
}

}  // namespace ng
