#include "nn/adapter.h"

namespace ng {

void Adapter::scale(Run& run, const View& u) const {
  run.execute(Combine{.y = u, .x = u, .a = scale_, .b = 0});
}

Tensor Adapter::inner(Run& run, Source& x) {
  Tensor u = run.tensor(x.rows(), a_.outputs(), fp32_format());
  a_.fprop(run, u, x);
  scale(run, u);
  return u;
}

void Adapter::fprop(Run& run, const View& y, Source& x) {
  Source u(inner(run, x), a_.output());
  b_.fprop(run, y, u, Into::add);
}

void Adapter::backward(Run& run, const View& dx, Source& x, Source& dy) {
  const Tensor du = run.tensor(x.rows(), a_.outputs(), fp32_format());
  {
    Source u(inner(run, x), a_.output());
    b_.backward(run, du, Into::overwrite, u, dy);
  }
  scale(run, du);
  Source of_a(du, a_.output());
  a_.backward(run, dx, Into::add, x, of_a);
}

void Adapter::set_phase(Run& run, size_t phase) {
  a_.set_phase(run, phase);
  b_.set_phase(run, phase);
}

}  // namespace ng
