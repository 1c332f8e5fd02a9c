#include "nn/embedding.h"

#include "nn/tensor_group.h"

namespace ng {
namespace {

TokenView ids_of(const Batch& batch, const TokenSlice& tokens) {
  return batch.inputs.subspan(static_cast<size_t>(tokens.first), static_cast<size_t>(tokens.count));
}

}  // namespace

Tensor Embedding::forward(Run& run, const Batch& batch) const {
  const Run::Place place = run.in(tokens_->spec.name);
  const TokenSlice own = own_tokens(run, batch.tokens());
  const Tensor y = run.tensor(own.count, tokens_->value().cols, element_of(compute_));
  const ReadableWeight tokens = readable(run, *tokens_);
  ReadableWeight positions;
  if (positions_ != nullptr) positions = readable(run, *positions_);
  for_runs(own, batch.at, [&](const TokenRun& at) {
    run.execute(Embed{.y = y.view().slice(at.tokens.first - own.first, at.tokens.count),
                      .ids = ids_of(batch, at.tokens),
                      .tokens = tokens.view,
                      .positions = positions.view,
                      .at = at.at});
  });
  return y;
}

void Embedding::backward(Run& run, const ConstView& dy, const Batch& batch) const {
  if (tokens_->spec.is_frozen) return;
  const Run::Place place = run.in(tokens_->spec.name);
  const View dtokens = gradient_to_add_to(run, *tokens_);
  const bool has_positions = positions_ != nullptr && !positions_->spec.is_frozen;
  const View dpositions = has_positions ? gradient_to_add_to(run, *positions_) : View();
  const TokenSlice own = own_tokens(run, batch.tokens());
  for_runs(own, batch.at, [&](const TokenRun& at) {
    run.execute(EmbedBackward{.dtokens = dtokens,
                              .dpositions = dpositions,
                              .dy = dy.slice(at.tokens.first - own.first, at.tokens.count),
                              .ids = ids_of(batch, at.tokens),
                              .at = at.at});
  });
}

}  // namespace ng
