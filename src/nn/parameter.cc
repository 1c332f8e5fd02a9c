#include "nn/parameter.h"

namespace ng {
namespace {

void allocate_gradient(Run& run, Parameter& parameter) {
  parameter.grad = run.tensor(parameter.value().rows, parameter.value().cols,
                              *parameter.grad_element, MemoryKind::gradients);
}

ReadableWeight copy_of(Run& run, const View& weight, bool in_bf16) {
  Tensor copy = run.tensor(weight.rows, weight.cols, in_bf16 ? bf16_format() : fp32_format(),
                           MemoryKind::operands);
  run.execute(Store{stored_plainly(copy), weight, {}});
  return {copy.view(), copy};
}

// Room for one level of a gradient's scales.
Tensor scales_of(Run& run, const ElementFormat& element, int64_t rows, int64_t cols) {
  return run.tensor(rows, cols, element, MemoryKind::gradients);
}

}  // namespace

ParameterSpec Parameter::whole_spec() const {
  ParameterSpec whole = spec;
  whole.rows = rows_of_whole();
  return whole;
}

StoredSpec Parameter::own(const StoredSpec& state) const {
  StoredSpec mine = state.part(first_row, spec.rows, rows_of_whole());
  mine.spec.is_own = is_own;
  return mine;
}

View Parameter::gradient() const {
  View view = grad;
  if (!grad_scales[0]) return view;
  view.scales = {grad_scales[0].bytes(), grad_scales[0].view().element, communicate.block,
                 grad_scales[1] ? grad_scales[1].view().as<float>().data : nullptr};
  return view;
}

ReadableWeight readable(Run& run, const Stored& weight) {
  const View& value = weight.view;
  if (!value.has_scales() && (value.is(fp32_format()) || value.is(bf16_format())))
    return {value, {}};
  return copy_of(run, value, weight.cast.is_exact_in_bf16());
}

ReadableWeight readable_vector(Run& run, const Parameter& parameter) {
  const View& value = parameter.value();
  if (value.is(fp32_format())) return {value, {}};
  return copy_of(run, value, false);
}

ReadableWeight readable_elements(Run& run, const Stored& weight) {
  View elements = weight.view;
  elements.scales = {};
  return copy_of(run, elements, elements.element->bits <= 8);
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

void allocate_finished_gradient(Run& run, Parameter& parameter) {
  const Operand& cast = parameter.communicate;
  const auto [rows, cols] = std::pair(parameter.spec.rows, parameter.spec.cols);
  parameter.grad = run.tensor(rows, cols, *cast.element, MemoryKind::gradients);
  if (!cast.is_unscaled()) {
    const ScaleShape shape = scale_shape(cast, rows, cols);
    parameter.grad_scales[0] = scales_of(run, scale_element(cast), shape.rows, shape.cols);
  }
  if (cast.tensor_scale != ScaleKind::none)
    parameter.grad_scales[1] = scales_of(run, fp32_format(), 1, 1);
}

void finish_gradient(Run& run, Parameter& parameter, const float* amax) {
  const Operand& cast = parameter.communicate;
  if (cast.is_fp32()) return;
  const Tensor sum = parameter.grad;
  const ConstView values = sum;
  allocate_finished_gradient(run, parameter);
  run.execute(StoreGradient{.y = {parameter.gradient(), cast},
                            .x = values,
                            .key = {.seed = run.rounding_seed(),
                                    .tensor = parameter.id,
                                    .step = run.moment().step,
                                    .purpose = Purpose::gradient_wire,
                                    .micro = run.moment().first_micro},
                            .scale = parameter.auto_scale,
                            .amax = amax});
}

void forget_step(Parameter& parameter) {
  parameter.grad = {};
  parameter.grad_scales = {};
  parameter.noisy = {};
  parameter.noise_scales = {};
  parameter.operands = {};
}

}  // namespace ng
