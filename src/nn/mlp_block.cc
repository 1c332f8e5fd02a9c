#include "nn/mlp_block.h"

namespace ng {

Tensor MlpBlock::activate(Run& run, const View& hidden) const {
  const int64_t width = parts_.down.inputs();
  const Tensor a = run.tensor(hidden.rows, width, *hidden.element);
  if (gated())
    run.execute(
        Swiglu{.y = a, .gate = hidden.columns(0, width), .up = hidden.columns(width, width)});
  else
    run.execute(Gelu{.y = a, .x = hidden, .kind = parts_.gelu});
  return a;
}

void MlpBlock::activate_backward(Run& run, const View& dhidden, const ConstView& da,
                                 const View& hidden) const {
  const int64_t width = parts_.down.inputs();
  if (gated())
    run.execute(SwigluBackward{.dgate = dhidden.columns(0, width),
                               .dup = dhidden.columns(width, width),
                               .dy = da,
                               .gate = hidden.columns(0, width),
                               .up = hidden.columns(width, width)});
  else
    run.execute(GeluBackward{.dx = dhidden, .dy = da, .x = hidden, .kind = parts_.gelu});
}

Tensor MlpBlock::forward(Run& run, const Tensor& x, const Batch&) {
  const Run::Place place = run.in(parts_.name);
  Tensor hidden;
  {
    Source n = gathered(run, parts_.norm.source(run, x), parts_.wires.inputs);
    const auto parts = static_cast<int64_t>(parts_.inputs.size());
    hidden = run.tensor(n.rows(), parts * parts_.down.inputs(), *x.view().element);
    int64_t column = 0;
    for (Linear& input : parts_.inputs) {
      input.fprop(run, hidden.view().columns(column, input.outputs()), n);
      column += input.outputs();
    }
  }
  Source a(activate(run, hidden), parts_.activation);
  save(run, hidden, parts_.saved.activation);
  hidden = {};
  Tensor y =
      sum_of_own_tokens(run, parts_.down.forward(run, a), parts_.wires.sums, *x.view().element);
  run.execute(Add{.y = y, .a = x, .b = y});
  save(run, x, parts_.saved.norm);
  return y;
}

void MlpBlock::backward(Run& run, const View& dy, const Batch&) {
  const Run::Place place = run.in(parts_.name);
  const Saved saved_x(run, parts_.saved.norm, *dy.element);
  Tensor hidden = Saved(run, parts_.saved.activation, *dy.element).values(run);
  Tensor dhidden;
  {
    Source a(activate(run, hidden), parts_.activation);  // made again: cheaper than keeping it
    const Tensor da = run.tensor_like(a.values());
    if (parts_.down.divides_inputs()) parts_.down.add_bias_gradient(run, dy);
    Source dout = gathered(run, {{}, dy, parts_.down.output()}, parts_.wires.gradients);
    parts_.down.backward(run, da, Into::overwrite, a, dout);
    dhidden = run.tensor_like(hidden);
    activate_backward(run, dhidden, da, hidden);
  }
  hidden = {};
  const Tensor x = saved_x.values(run);
  Source n = gathered(run, parts_.norm.source(run, x), parts_.wires.inputs);
  Tensor dn = gradient_sum(run, x, n.rows(), parts_.inputs);
  int64_t column = 0;
  for (Linear& input : parts_.inputs) {
    Source dinput(dhidden, dhidden.view().columns(column, input.outputs()), input.output());
    input.backward(run, dn, column == 0 ? Into::overwrite : Into::add, n, dinput);
    column += input.outputs();
  }
  dn = sum_of_own_tokens(run, std::move(dn), parts_.wires.sums, *x.view().element);
  parts_.norm.backward(run, dy, dy, dn, x);
}

void MlpBlock::collect(std::vector<Linear*>& linears) {
  for (Linear& input : parts_.inputs) linears.push_back(&input);
  linears.push_back(&parts_.down);
}

}  // namespace ng
