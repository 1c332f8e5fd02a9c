// A model's way forward and back.
#include "model/model.h"
#include "nn/tensor_group.h"

namespace ng {
namespace {

// Rows of the last position of each sequence.
Tensor last_rows(Run& run, const ConstView& x, const Positions& at) {
  Tensor last = run.tensor(at.sequences, x.cols, *x.element);
  for (int64_t s = 0; s < at.sequences; ++s)
    run.execute(Copy{.y = last.view().slice(s, 1), .x = x.slice((s + 1) * at.length - 1, 1)});
  return last;
}

}  // namespace

Tensor Model::hidden(Run& run, const Batch& batch) {
  NG_CHECK(batch.at.first + batch.at.length <= config_.context, batch.at.first, batch.at.length);
  return blocks_.forward(run, embedding_->forward(run, batch), batch);
}

template <class ThroughHead>
void Model::forward_backward(Run& run, const Batch& batch, const ThroughHead& through_head,
                             const PartDone& done) {
  Tensor dx;
  ResidualGradient gradient;
  {
    const Tensor x = hidden(run, batch);
    Tensor dn;
    {
      Source n = norm_->source(run, x, head_->slot_of_input(run, true),
                               own_tokens(run, batch.tokens()).first);
      dn = through_head(n);
    }
    dx = run.tensor_like(x);
    gradient = {.values = dx, .amax = {run, blocks_.reads_amax_of_gradient(run)}};
    norm_->backward(run, dx, {}, dn, x, gradient.amax);
  }
  done(of_head_);
  blocks_.backward(run, gradient, batch, [&](size_t block) { done(of_blocks_[block]); });
  embedding_->backward(run, dx, batch);
  done(of_rest_);
}

void Model::train_batch(Run& run, const Batch& batch, double* loss, const PartDone& done) {
  forward_backward(
      run, batch, [&](Source& n) { return head_->loss_and_gradient(run, n, batch, loss); }, done);
}

// The logits are made twice, for no layer keeps all of them.
void Model::train_batch(Run& run, const Batch& batch, const Weigh& weigh, const PartDone& done) {
  const auto through_head = [&](Source& n) {
    const Tensor losses = run.tensor(1, batch.tokens(), fp32_format());
    const Tensor weights = run.tensor_like(losses);
    head_->token_losses(run, n, batch, losses);
    weigh(losses, weights);
    Batch weighted = batch;
    weighted.mask = weights.view();
    return head_->loss_and_gradient(run, n, weighted, nullptr);
  };
  forward_backward(run, batch, through_head, done);
}

void Model::evaluate_batch(Run& run, const Batch& batch, double* loss) {
  const Tensor x = hidden(run, batch);
  Source n = norm_->source(run, x, head_->slot_of_input(run, false),
                           own_tokens(run, batch.tokens()).first);
  head_->loss(run, n, batch, loss);
}

void Model::token_losses(Run& run, const Batch& batch, const View& losses) {
  const Tensor x = hidden(run, batch);
  Source n = norm_->source(run, x, head_->slot_of_input(run, false));
  head_->token_losses(run, n, batch, losses);
}

Tensor Model::logits(Run& run, const Batch& batch, bool last_only) {
  NG_CHECK(run.tensor_group().ranks() == 1);
  Tensor x = hidden(run, batch);
  if (last_only) x = last_rows(run, x, batch.at);
  Source n = norm_->source(run, x, head_->slot_of_input(run, false));
  return head_->logits(run, n);
}

}  // namespace ng
