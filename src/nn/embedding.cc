#include "nn/embedding.h"

namespace ng {

Tensor Embedding::forward(Run& run, const Batch& batch) const {
  const Run::Place place = run.in(tokens_->spec.name);
  const Tensor y = run.tensor(batch.tokens(), tokens_->value().cols, element_of(compute_));
  const ReadableWeight tokens = readable(run, *tokens_);
  ReadableWeight positions;
  if (positions_ != nullptr) positions = readable(run, *positions_);
  run.execute(Embed{.y = y,
                    .ids = batch.inputs,
                    .tokens = tokens.view,
                    .positions = positions.view,
                    .at = batch.at});
  return y;
}

void Embedding::backward(Run& run, const ConstView& dy, const Batch& batch) const {
  const Run::Place place = run.in(tokens_->spec.name);
  const View dtokens = gradient_to_add_to(run, *tokens_);
  const View dpositions = positions_ != nullptr ? gradient_to_add_to(run, *positions_) : View();
  run.execute(EmbedBackward{
      .dtokens = dtokens, .dpositions = dpositions, .dy = dy, .ids = batch.inputs, .at = batch.at});
}

}  // namespace ng
