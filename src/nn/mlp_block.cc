#include "nn/mlp_block.h"

namespace ng {

Tensor MlpBlock::activate(Run& run, View hidden) const {
  const int64_t width = parts_.down.inputs();
  const Tensor a = run.tensor(hidden.rows, width);
  if (gated())
    run.ops().swiglu(a, hidden.columns(0, width), hidden.columns(width, width), parts_.compute);
  else
    run.ops().gelu(a, hidden, parts_.gelu, parts_.compute);
  return a;
}

void MlpBlock::activate_backward(Run& run, View dhidden, ConstView da, View hidden) const {
  const int64_t width = parts_.down.inputs();
  if (gated())
    run.ops().swiglu_backward(dhidden.columns(0, width), dhidden.columns(width, width), da,
                              hidden.columns(0, width), hidden.columns(width, width),
                              parts_.compute);
  else
    run.ops().gelu_backward(dhidden, da, hidden, parts_.gelu, parts_.compute);
}

Tensor MlpBlock::forward(Run& run, const Tensor& x, const Batch&) {
  Tensor hidden;
  {
    Source n = parts_.norm.source(run, x);
    const auto parts = static_cast<int64_t>(parts_.inputs.size());
    hidden = run.tensor(x.view().rows, parts * parts_.down.inputs());
    int64_t column = 0;
    for (Linear& input : parts_.inputs) {
      input.fprop(run, hidden.view().columns(column, input.outputs()), n);
      column += input.outputs();
    }
  }
  Source a(activate(run, hidden), parts_.activation);
  Tensor y = parts_.down.forward(run, a);
  run.ops().add(y, x, y, parts_.compute);
  run.save(x);
  run.save(hidden);
  return y;
}

void MlpBlock::backward(Run& run, View dy, const Batch&) {
  Tensor hidden = run.restore();
  const Tensor x = run.restore();
  Tensor dhidden;
  {
    Source a(activate(run, hidden), parts_.activation);  // made again: cheaper than keeping it
    const Tensor da = run.tensor(a.values().rows, a.values().cols);
    Source dout({}, dy, parts_.down.output());
    parts_.down.backward(run, da, Into::overwrite, a, dout);
    dhidden = run.tensor(hidden.view().rows, hidden.view().cols);
    activate_backward(run, dhidden, da, hidden);
  }
  hidden = {};
  Source n = parts_.norm.source(run, x);
  const Tensor dn = run.tensor(x.view().rows, x.view().cols);
  int64_t column = 0;
  for (Linear& input : parts_.inputs) {
    Source dinput(dhidden, dhidden.view().columns(column, input.outputs()), input.output());
    input.backward(run, dn, column == 0 ? Into::overwrite : Into::add, n, dinput);
    column += input.outputs();
  }
  parts_.norm.backward(run, dy, dy, dn, x);
}

void MlpBlock::collect(std::vector<Linear*>& linears) {
  for (Linear& input : parts_.inputs) linears.push_back(&input);
  linears.push_back(&parts_.down);
}

void MlpBlock::set_compute(Compute compute) {
  parts_.compute = compute;
  parts_.norm.set_compute(compute);
}

}  // namespace ng
