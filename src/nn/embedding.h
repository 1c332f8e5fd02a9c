// Token embedding and, for GPT-2, learned positions: y (T, C) = E[id] (+ P[position]).
#pragma once

#include "nn/batch.h"
#include "nn/parameter.h"

namespace ng {

class Embedding {
 public:
  /// `positions` may be null.
  Embedding(Parameter& tokens, Parameter* positions, Compute compute)
      : tokens_(&tokens), positions_(positions), compute_(compute) {}

  /// As what y, and so the whole residual stream, is stored.
  void set_compute(Compute compute) { compute_ = compute; }
  [[nodiscard]] Compute compute() const { return compute_; }
  [[nodiscard]] const Parameter* tokens() const { return tokens_; }
  [[nodiscard]] Tensor forward(Run& run, const Batch& batch) const;
  void backward(Run& run, const ConstView& dy, const Batch& batch) const;

 private:
  Parameter* tokens_;
  Parameter* positions_;
  Compute compute_;
};

}  // namespace ng
