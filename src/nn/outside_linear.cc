#include "nn/outside_linear.h"

#include <utility>

namespace ng {
namespace {

Parameter parameter_of(const OutsideLinear::Parts& parts, const char* what, int64_t rows,
                       int64_t cols) {
  Parameter parameter;
  parameter.spec = {.name = parts.name + what, .hf_name = "", .rows = rows, .cols = cols};
  parameter.id = parts.weight_id;
  return parameter;
}

void place(Parameter& parameter, const View& values) {
  NG_CHECK(values.rows == parameter.spec.rows && values.cols == parameter.spec.cols,
           parameter.spec.name, values.rows, values.cols);
  parameter.weight.value = stored_plainly(values);
}

}  // namespace

OutsideLinear::OutsideLinear(Run& run, Parts parts)
    : run_(run),
      parts_(std::move(parts)),
      weight_(parameter_of(parts_, ".weight", parts_.outputs, parts_.inputs)),
      bias_(parameter_of(parts_, ".bias", 1, parts_.outputs)),
      linear_(run, {.name = parts_.name,
                    .output = parts_.output_id,
                    .weight = &weight_,
                    .bias = parts_.has_bias ? &bias_ : nullptr,
                    .phases = parts_.phases}) {
  place(weight_, {nullptr, fp32_format(), parts_.outputs, parts_.inputs, parts_.inputs});
  weight_.operand_memory = {&kept_[0], &kept_[1]};
  linear_.keep_weights(run, true);
}

void OutsideLinear::set_phase(size_t phase) {
  linear_.set_phase(run_, phase);
  keep_weight(false);
}

void OutsideLinear::keep_weight(bool is_kept) {
  if (!is_kept) weight_.operands = {};
}

size_t OutsideLinear::kept_bytes() const { return kept_[0].size() + kept_[1].size(); }

void OutsideLinear::take(const Weights& weights) {
  if (weight_.weight.value.view.data != weights.weight.data) keep_weight(false);
  place(weight_, weights.weight);
  if (parts_.has_bias) place(bias_, weights.bias);
}

// What a dry run makes holds nothing: it is not kept.
template <class Body>
void OutsideLinear::work(const Body& body) {
  const std::array<Prepared, 2> kept = weight_.operands;
  const Program program = run_.record(body);
  weight_.operands = kept;
  run_.reserve({&program});
  run_.replay(program, body);
}

void OutsideLinear::forward(const Weights& weights, const ConstView& x, const View& y,
                            const Taker& taker) {
  NG_CHECK(x.rows > 0 && x.cols == parts_.inputs, parts_.name, x.rows, x.cols);
  NG_CHECK(y.rows == x.rows && y.cols == parts_.outputs, parts_.name, y.rows, y.cols);
  take(weights);
  work([&] {
    Source source(Tensor(), x, parts_.input_id);
    linear_.fprop(run_, y, source);
    if (taker && !run_.recording()) taker(source.newest().packed);
  });
}

void OutsideLinear::backward(const Weights& weights, const Input& x, const ConstView& dy,
                             const Gradients& gradients) {
  NG_CHECK(dy.rows > 0 && dy.cols == parts_.outputs, parts_.name, dy.rows, dy.cols);
  take(weights);
  const bool asks_input = gradients.input.rows > 0, asks_weight = gradients.weight.rows > 0;
  work([&] {
    Source source(Tensor(), x.values, parts_.input_id), grad(Tensor(), dy, parts_.output_id);
    if (x.is_read) source = source.as_read();
    if (asks_input && asks_weight) linear_.make_gradient_operands(run_, grad);
    if (asks_weight) linear_.wgrad(run_, {gradients.weight, Into::overwrite}, source, grad);
    if (gradients.bias.rows > 0) {
      run_.execute(Fill{.x = gradients.bias, .value = 0.0f});
      run_.execute(AddColumnSums{.sum = gradients.bias, .x = dy});
    }
    if (asks_input) linear_.dgrad(run_, gradients.input, Into::overwrite, source, grad);
  });
}

}  // namespace ng
