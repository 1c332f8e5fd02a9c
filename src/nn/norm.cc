#include "nn/norm.h"

namespace ng {

Tensor NormLayer::forward(Run& run, const ConstView& x) const {
  const Run::Place place = run.in(parts_.gain->spec.name);
  const Tensor y = run.tensor_like(x);
  run.execute(Norm{.kind = parts_.kind,
                   .y = y,
                   .x = x,
                   .gain = parts_.gain->value(),
                   .bias = bias(),
                   .eps = parts_.eps});
  return y;
}

void NormLayer::backward(Run& run, const View& dx, const ConstView& dresidual, const ConstView& dy,
                         const ConstView& x) const {
  const Run::Place place = run.in(parts_.gain->spec.name);
  const View dgain = gradient_to_add_to(run, *parts_.gain);
  const View dbias = parts_.bias != nullptr ? gradient_to_add_to(run, *parts_.bias) : View();
  run.execute(NormBackward{.kind = parts_.kind,
                           .dx = dx,
                           .dgain = dgain,
                           .dbias = dbias,
                           .dresidual = dresidual,
                           .dy = dy,
                           .x = x,
                           .gain = parts_.gain->value(),
                           .eps = parts_.eps});
}

}  // namespace ng
