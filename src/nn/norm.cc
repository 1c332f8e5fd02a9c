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
  NormBackward args{.dx = dx,
                    .dgain = gradient_to_add_to(run, *parts_.gain).data,
                    .dbias = nullptr,
                    .dresidual = dresidual,
                    .dy = dy,
                    .x = x,
                    .gain = parts_.gain->value.data,
                    .eps = parts_.eps};
  if (parts_.kind == Kind::rms) return run.ops().rms_norm_backward(args, parts_.compute);
  if (parts_.bias != nullptr) args.dbias = gradient_to_add_to(run, *parts_.bias).data;
  run.ops().layer_norm_backward(args, parts_.compute);
}

}  // namespace ng
