#include "nn/parameter.h"

namespace ng {
namespace {

void allocate_gradient(Run& run, Parameter& parameter) {
  parameter.grad = run.tensor(parameter.value.rows, parameter.value.cols, *parameter.grad_element,
                              MemoryKind::gradients);
}

}  // namespace

GradientTarget gradient_target(Run& run, Parameter& parameter) {
  if (parameter.grad) return {parameter.grad, Into::add};
  allocate_gradient(run, parameter);
  return {parameter.grad, Into::overwrite};
}

View gradient_to_add_to(Run& run, Parameter& parameter) {
  if (!parameter.grad) {
    allocate_gradient(run, parameter);
    run.execute(Fill{.x = parameter.grad, .value = 0.0f});
  }
  return parameter.grad;
}

void forget_step(Parameter& parameter) {
  parameter.grad = {};
  parameter.operands = {};
}

}  // namespace ng
