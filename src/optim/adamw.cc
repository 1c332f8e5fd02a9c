#include "optim/adamw.h"

#include <cmath>
#include <string_view>

namespace ng {

void allocate_adamw(Run& run, std::span<Parameter> parameters) {
  const auto moment = [&](const Parameter& p, std::string_view name) {
    return run.persistent({.name = fmt::format("{}.{}", name, p.spec.name),
                           .owner = p.spec.name,
                           .kind = MemoryKind::moments,
                           .element = &fp32_format(),
                           .rows = p.value.rows,
                           .cols = p.value.cols});
  };
  for (Parameter& p : parameters) {
    p.moment1 = moment(p, "moment1");
    p.moment2 = moment(p, "moment2");
  }
}

void update_adamw(Run& run, std::span<Parameter> parameters, const AdamWSettings& settings,
                  float lr, int64_t step, const StepControl* control) {
  const auto t = static_cast<double>(step + 1);
  const auto correction1 = static_cast<float>(1.0 - std::pow(double{settings.beta1}, t));
  const auto correction2 = static_cast<float>(1.0 - std::pow(double{settings.beta2}, t));
  for (Parameter& p : parameters)
    run.execute(AdamW{.weight = p.value,
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
