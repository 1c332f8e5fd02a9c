#include "nn/embedding.h"

namespace ng {

Tensor Embedding::forward(Run& run, const Batch& batch) const {
  const Tensor y = run.tensor(batch.tokens(), tokens_->value.cols);
  const ConstView positions = positions_ != nullptr ? positions_->value : View{};
  run.ops().embed(y, batch.inputs, tokens_->value, positions, batch.at, compute_);
  return y;
}

void Embedding::backward(Run& run, ConstView dy, const Batch& batch) const {
  const View dtokens = gradient_to_add_to(run, *tokens_);
  const View dpositions = positions_ != nullptr ? gradient_to_add_to(run, *positions_) : View{};
  run.ops().embed_backward(dtokens, dpositions, dy, batch.inputs, batch.at);
}

}  // namespace ng
