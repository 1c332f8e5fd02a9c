#include <cmath>
#include <limits>

#include "backend/host_step.h"
#include "backend/ref/update/store.h"
#include "backend/ref/update/update.h"

namespace ng::ref {
namespace {

/// Finds the first of the tensors of an update whose new values it does not hold.
StoredState overflowing_state(const Update& op) {
  const UpdatedWeight& weight = op.weight;
  const std::vector<float> w = values_of(weight.master ? weight.master.view : weight.value.view);
  const std::vector<float> m = values_of(op.moment1.view), v = second_moments(op),
                           g = values_of(op.grad);
  const MomentLimits most(op);
  // A block's mean is at most its largest: as if each had one of its own.
  const bool has_blocks = op.optimizer == OptimizerRule::adam_mini;
  const ElementRule rule(has_blocks ? OptimizerRule::adamw : op.optimizer, op.numbers);
  for (size_t i = 0; i < w.size(); ++i) {
    const float gradient = g[i] * op.grad_scale();
    float new_m = m.empty() ? 0 : m[i], new_v = v.empty() ? 0 : v[i];
    rule.move(gradient, new_m, new_v);
    if (!(std::fabs(new_m) <= most.first)) return StoredState::moment1;
    if (!(std::fabs(new_v) <= most.second)) return StoredState::moment2;
    if (!std::isfinite(rule.new_weight(w[i], new_m, new_v, gradient)))
      return weight.master ? StoredState::master : StoredState::weight;
  }
  return StoredState::none;
}

}  // namespace

void perform(const CheckUpdate& op) {
  op.update.check_shapes();
  StepControl& control = *op.control;
  if (control.overflowing != StoredState::none || control.skip != 0) return;
  if (surely_fits(op.update.optimizer, op.update.numbers, MomentLimits(op.update), control)) return;
  control.overflowing = overflowing_state(op.update);
  if (control.overflowing == StoredState::none) return;
  control.overflowing_parameter = op.parameter;
  control.skip = 1;
}

}  // namespace ng::ref
