#include "nn/parameter.h"

namespace ng {
namespace {

void allocate_gradient(Run& run, Parameter& parameter) {
  parameter.grad = run.tensor(parameter.value().rows, parameter.value().cols,
                              *parameter.grad_element, MemoryKind::gradients);
}

// Eight significant bits and a scale that is a power of two.
bool is_exact_in_bf16(const Operand& cast) {
  const bool powers = cast.scale != ScaleKind::fp32 && cast.scale != ScaleKind::e4m3;
  return cast.element->bits <= 8 && powers && cast.tensor_scale == ScaleKind::none;
}

}  // namespace

ReadableWeight readable(Run& run, const Parameter& parameter) {
  const View& value = parameter.value();
  if (!value.has_scales() && (value.is(fp32_format()) || value.is(bf16_format())))
    return {value, {}};
  const bool in_bf16 = is_exact_in_bf16(parameter.weight.value.cast);
  Tensor copy = run.tensor(value.rows, value.cols, in_bf16 ? bf16_format() : fp32_format(),
                           MemoryKind::operands);
  run.execute(Store{stored_plainly(copy), value, {}});
  return {copy.view(), copy};
}

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
