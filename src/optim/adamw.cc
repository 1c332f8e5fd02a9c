#include "optim/adamw.h"

#include <cmath>

namespace ng {

void allocate_adamw(Run& run, std::span<Parameter> parameters) {
  for (Parameter& p : parameters) {
    p.moment1 = run.persistent(p.value.rows, p.value.cols, MemoryKind::moments);
    p.moment2 = run.persistent(p.value.rows, p.value.cols, MemoryKind::moments);
  }
}

void update_adamw(Run& run, std::span<Parameter> parameters, const AdamWSettings& settings,
                  float lr, int64_t step, const StepControl* control) {
  const auto t = static_cast<double>(step + 1);
  const auto correction1 = static_cast<float>(1.0 - std::pow(double{settings.beta1}, t));
  const auto correction2 = static_cast<float>(1.0 - std::pow(double{settings.beta2}, t));
  for (Parameter& p : parameters)
    run.ops().adamw({.weight = p.value,
                     .m = p.moment1,
                     .v = p.moment2,
                     .grad = p.grad,
                     .lr = lr,
                     .beta1 = settings.beta1,
                     .beta2 = settings.beta2,
                     .eps = settings.eps,
                     .weight_decay = p.spec.is_vector ? 0.0f : settings.weight_decay,
                     .correction1 = correction1,
                     .correction2 = correction2,
                     .control = control});
}

}  // namespace ng
