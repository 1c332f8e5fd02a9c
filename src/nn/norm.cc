#include "nn/norm.h"

namespace ng {

Tensor Norm::forward(Run& run, ConstView x) const {
  const Tensor y = run.tensor(x.rows, x.cols);
  const float* gain = parts_.gain->value.data;
  if (parts_.kind == Kind::rms)
    run.ops().rms_norm(y, x, gain, parts_.eps, parts_.compute);
  else
    run.ops().layer_norm(y, x, gain, bias(), parts_.eps, parts_.compute);
  return y;
}

void Norm::backward(Run& run, View dx, ConstView dresidual, ConstView dy, ConstView x) const {
  const float* gain = parts_.gain->value.data;
  float* dgain = gradient_to_add_to(run, *parts_.gain).data;
  if (parts_.kind == Kind::rms) {
    run.ops().rms_norm_backward(dx, dgain, dresidual, dy, x, gain, parts_.eps, parts_.compute);
    return;
  }
  float* dbias = parts_.bias != nullptr ? gradient_to_add_to(run, *parts_.bias).data : nullptr;
  run.ops().layer_norm_backward(dx, dgain, dbias, dresidual, dy, x, gain, parts_.eps,
                                parts_.compute);
}

}  // namespace ng
