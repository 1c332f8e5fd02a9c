#include "nn/norm.h"

namespace ng {

Source NormLayer::source(Run& run, const ConstView& x, const AmaxSlot& amax,
                         int64_t first_row) const {
  const Tensor y = run.tensor_like(x);
  forward(run, y, x, amax);
  Source made(y, y.view(), parts_.output, first_row);
  made.know_amax(amax);
  return made;
}

void NormLayer::forward(Run& run, const View& y, const ConstView& x, const AmaxSlot& amax) const {
  const Run::Place place = run.in(parts_.gain->spec.name);
  const ReadableWeight gain = readable_vector(run, *parts_.gain), bias = read_bias(run);
  run.execute(Norm{.kind = parts_.kind,
                   .y = y,
                   .x = x,
                   .gain = gain.view,
                   .bias = bias.view,
                   .eps = parts_.eps,
                   .amax = amax.place()});
}

void NormLayer::backward(Run& run, const View& dx, const ConstView& dresidual, const ConstView& dy,
                         const ConstView& x, const AmaxSlot& amax) const {
  const Run::Place place = run.in(parts_.gain->spec.name);
  const ReadableWeight gain = readable_vector(run, *parts_.gain);
  const bool is_frozen = parts_.gain->spec.is_frozen;
  Tensor unwanted;  // the operation gives a gain's gradient in any case
  if (is_frozen) {
    unwanted = run.tensor(1, gain.view.cols, fp32_format());
    run.execute(Fill{.x = unwanted, .value = 0.0f});
  }
  const View dgain = is_frozen ? unwanted.view() : gradient_to_add_to(run, *parts_.gain);
  const bool has_dbias = parts_.bias != nullptr && !is_frozen;
  const View dbias = has_dbias ? gradient_to_add_to(run, *parts_.bias) : View();
  run.execute(NormBackward{.kind = parts_.kind,
                           .dx = dx,
                           .dgain = dgain,
                           .dbias = dbias,
                           .dresidual = dresidual,
                           .dy = dy,
                           .x = x,
                           .gain = gain.view,
                           .eps = parts_.eps,
                           .amax = amax.place()});
}

}  // namespace ng
