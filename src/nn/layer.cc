#include "nn/layer.h"

namespace ng {

Source source_of(const ResidualGradient& gradient, const Linear& layer) {
  Source dy({}, gradient.values, layer.output());
  dy.know_amax(gradient.amax);
  return dy;
}

Tensor Chain::forward(Run& run, const Tensor& x, const Batch& batch) {
  Tensor y = x;
  for (const auto& layer : layers_) y = layer->forward(run, y, batch);
  return y;
}

void Chain::collect(std::vector<Linear*>& linears) {
  for (const auto& layer : layers_) layer->collect(linears);
}

Tensor Recompute::forward(Run& run, const Tensor& x, const Batch& batch) {
  const bool saving = run.saving();
  run.save(x);
  run.set_saving(false);
  Tensor y = inner_->forward(run, x, batch);
  run.set_saving(saving);
  return y;
}

void Recompute::backward(Run& run, ResidualGradient& dy, const Batch& batch) {
  const bool statistics = run.writes_statistics();
  run.set_writes_statistics(false);
  static_cast<void>(inner_->forward(run, run.restore(), batch));
  run.set_writes_statistics(statistics);
  inner_->backward(run, dy, batch);
}

}  // namespace ng
