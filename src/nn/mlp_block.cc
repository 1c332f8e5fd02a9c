#include "nn/mlp_block.h"

namespace ng {

Source MlpBlock::activate(Run& run, const View& hidden, bool is_backward) const {
  const int64_t width = parts_.down.inputs();
  const Tensor a = run.tensor(hidden.rows, width, *hidden.element);
  const AmaxSlot amax = input_of_down().slot(run, hidden, is_backward);
  if (gated())
    run.execute(Swiglu{.y = a,
                       .gate = hidden.columns(0, width),
                       .up = hidden.columns(width, width),
                       .amax = amax.place()});
  else
    run.execute(Gelu{.y = a, .x = hidden, .kind = parts_.gelu, .amax = amax.place()});
  Source made(a, parts_.activation);
  made.know_amax(amax);
  return made;
}

void MlpBlock::activate_backward(Run& run, const View& dhidden, const ConstView& da,
                                 const View& hidden, const Amaxima& amax) const {
  const int64_t width = parts_.down.inputs();
  if (gated())
    run.execute(SwigluBackward{.dgate = dhidden.columns(0, width),
                               .dup = dhidden.columns(width, width),
                               .dy = da,
                               .gate = hidden.columns(0, width),
                               .up = hidden.columns(width, width),
                               .dgate_amax = amax[0].place(),
                               .dup_amax = amax[1].place()});
  else
    run.execute(GeluBackward{
        .dx = dhidden, .dy = da, .x = hidden, .kind = parts_.gelu, .amax = amax[0].place()});
}

Source MlpBlock::read_norm(Run& run, const ConstView& x, bool is_backward) const {
  const AmaxSlot amax = input_of_inputs().slot(run, x, is_backward);
  return gathered(run, parts_.norm.source(run, x, amax), parts_.wires.inputs);
}

Tensor MlpBlock::forward(Run& run, const Tensor& x, const Batch&) {
  const Run::Place place = run.in(parts_.name);
  Tensor hidden;
  {
    Source n = read_norm(run, x, false);
    const auto parts = static_cast<int64_t>(parts_.inputs.size());
    hidden = run.tensor(n.rows(), parts * parts_.down.inputs(), *x.view().element);
    int64_t column = 0;
    input_of_inputs().keep(run, n);
    for (Linear& input : parts_.inputs) {
      input.fprop(run, hidden.view().columns(column, input.outputs()), n);
      column += input.outputs();
    }
  }
  Source a = activate(run, hidden, false);
  save(run, hidden, parts_.saved.activation);
  hidden = {};
  input_of_down().keep(run, a);
  Tensor y =
      sum_of_own_tokens(run, parts_.down.forward(run, a), parts_.wires.sums, *x.view().element);
  run.execute(Add{.y = y, .a = x, .b = y});
  save(run, x, parts_.saved.norm);
  return y;
}

void MlpBlock::backward(Run& run, ResidualGradient& gradient, const Batch&) {
  const Run::Place place = run.in(parts_.name);
  const View dy = gradient.values;
  const Saved saved_x(run, parts_.saved.norm, *dy.element);
  std::optional<Source> kept_a = input_of_down().take(run, dy);
  Tensor hidden = Saved(run, parts_.saved.activation, *dy.element).values(run);
  std::optional<Source> kept_n = input_of_inputs().take(run, dy);
  Tensor dhidden;
  Amaxima of_dhidden;
  {
    Source a = kept_a ? *std::move(kept_a) : activate(run, hidden, true);
    const Tensor da = run.tensor(hidden.view().rows, parts_.down.inputs(), *dy.element);
    if (parts_.down.divides_inputs()) parts_.down.add_bias_gradient(run, dy);
    Source dout = gathered(run, source_of(gradient, parts_.down), parts_.wires.gradients);
    parts_.down.backward(run, da, Into::overwrite, a, dout);
    dhidden = run.tensor_like(hidden);
    for (size_t i = 0; i < parts_.inputs.size(); ++i)
      of_dhidden[i] = slot_of_gradient(run, parts_.inputs[i]);
    activate_backward(run, dhidden, da, hidden, of_dhidden);
  }
  hidden = {};
  const Tensor x = saved_x.values(run);
  Source n = kept_n ? *std::move(kept_n) : read_norm(run, x, true);
  Tensor dn = gradient_sum(run, x, n.rows(), parts_.inputs);
  int64_t column = 0;
  for (size_t i = 0; i < parts_.inputs.size(); ++i) {
    Linear& input = parts_.inputs[i];
    Source dinput(dhidden, dhidden.view().columns(column, input.outputs()), input.output());
    dinput.know_amax(of_dhidden[i]);
    input.backward(run, dn, column == 0 ? Into::overwrite : Into::add, n, dinput);
    column += input.outputs();
  }
  dn = sum_of_own_tokens(run, std::move(dn), parts_.wires.sums, *x.view().element);
  gradient.amax = gradient.next_slot(run);
  parts_.norm.backward(run, dy, dy, dn, x, gradient.amax);
}

void MlpBlock::collect(std::vector<Linear*>& linears) {
  for (Linear& input : parts_.inputs) linears.push_back(&input);
  linears.push_back(&parts_.down);
}

}  // namespace ng
