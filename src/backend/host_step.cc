#include "backend/host_step.h"

#include <algorithm>
#include <cmath>

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

}  // namespace ng
