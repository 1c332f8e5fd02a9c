#include "backend/host_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "format/codec.h"

namespace ng {

void decide_step_on_host(const DecideStep& op) {
  StepControl& control = *op.control;
  control.grad_norm = std::sqrt(*op.sum_of_squares);
  const bool operands_finite =
      std::all_of(op.stats, op.stats + op.stats_count,
                  [](const OperandStats& s) { return s.nan == 0 && s.inf == 0; });
  const bool finite = std::isfinite(control.loss) && std::isfinite(control.grad_norm);
  control.skip = finite && operands_finite ? 0 : 1;
  control.grad_scale = 1;
  if (op.clip > 0 && std::isfinite(control.grad_norm))
    control.grad_scale = static_cast<float>(std::min(1.0, op.clip / (control.grad_norm + 1e-6)));
}

float largest_of_moment(const Stored& moment) {
  if (!moment || !moment.cast.is_unscaled()) return std::numeric_limits<float>::max();
  return max_value(*moment.cast.element);
}

// Adam's moments are means of g and g² with weights that sum to 1: where neither leaves the format,
// no mean of it and of what is stored does. Steps taken before were checked too, so that |m| is at
// most sqrt(MAX₂ / (1 - β2)), which bounds the step, whatever v is, by the division by ε.
bool surely_fits(const Update& op, const StepControl& control) {
  constexpr double kFarFromInfinity = 0x1p120;  // a bound of FP32's 2^128 and of sums of weights
  const OptimizerNumbers& n = op.numbers;
  const double g = control.grad_norm * double{control.grad_scale};
  const double most1 = largest_of_moment(op.moment1), most2 = largest_of_moment(op.moment2);
  if (!(double{n.lr} * n.weight_decay <= 2)) return false;  // the weight itself would grow
  switch (op.optimizer) {
    case OptimizerRule::adamw:
    case OptimizerRule::adam_mini: {
      const double m = std::min(most1, std::sqrt(most2 / (1 - double{n.beta2})));
      const double step = double{n.lr} * m / (double{n.correction1} * double{n.eps});
      return g <= most1 && g * g <= most2 && step <= kFarFromInfinity;
    }
    case OptimizerRule::sgd: {
      constexpr double kLargestSeen = 0x1p100;  // of gradients in the steps before
      const double m = std::min(most1, kLargestSeen / (1 - double{n.beta1}));
      return g <= std::min((1 - double{n.beta1}) * most1, kLargestSeen) &&
             double{n.lr} * m <= kFarFromInfinity;
    }
    case OptimizerRule::muon:
    case OptimizerRule::direction:
      break;  // the step knows no norm
  }
  return false;
}

}  // namespace ng
