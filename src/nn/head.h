// The output head: logits = x·Wᵀ and their cross-entropy. Works through the tokens in pieces, so
// that the logits of a large vocabulary never exist all at once. The bits are those of one piece,
// but for a wgrad of other than plain numbers, whose pieces are added in FP32 one after another.
#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace ng {

class Head {
 public:
  explicit Head(Linear linear) : linear_(std::move(linear)) {
    linear_.count_time_as(TimeKind::head_and_loss);
  }

  [[nodiscard]] Linear& linear() { return linear_; }

  /// Room for the largest magnitude of the x of a pass.
  [[nodiscard]] AmaxSlot slot_of_input(Run& run, bool is_trained) const {
    return {run, linear_.reads_amax_of_input(run, false) ||
                     (is_trained && linear_.reads_amax_of_input(run, true))};
  }
  [[nodiscard]] Tensor logits(Run& run, Source& x) { return linear_.forward(run, x); }
  /// Σ mask·cross-entropy over the batch's targets is added to *loss, unless that is null; returns
  /// d(that / target_count)/dx and adds to dW.
  [[nodiscard]] Tensor loss_and_gradient(Run& run, Source& x, const Batch& batch, double* loss);
  /// *loss += Σ cross-entropy only.
  void loss(Run& run, Source& x, const Batch& batch, double* loss);
  /// losses (1, T) = mask·cross-entropy of each target.
  void token_losses(Run& run, Source& x, const Batch& batch, const View& losses);

 private:
  /// Tokens per piece: all of them where a scale may span more.
  [[nodiscard]] int64_t piece(int64_t tokens, const Run& run) const;
  /// f(first, their rows of x, their batch, their logits) of all pieces of the tokens, one after
  /// another.
  template <class F>
  void each_piece(Run& run, Source& x, const Batch& batch, const F& f);

  Linear linear_;
};

}  // namespace ng
