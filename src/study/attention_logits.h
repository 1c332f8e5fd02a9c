// How large the logits of attention are: those of a language model grow before training becomes
// unstable. [Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters";
// Wortsman et al. 2023, "Small-scale proxies for large-scale Transformer training instabilities"]
#pragma once

#include <span>

#include "backend/wrapped_backend.h"

namespace ng::study {

/// The largest |q·k|/√head_dim over all heads and all pairs that causal mask and window let
/// through, q and k as attention reads them (behind RoPE): q (sequences · length, heads ·
/// head_dim), k (sequences · kv_stride, kv_heads · head_dim), both row by row without gaps. Sums in
/// FP64. NaN where some logit is NaN.
[[nodiscard]] double largest_logit(std::span<const float> q, std::span<const float> k,
                                   const AttentionShape& shape);

/// A backend that does what another does and, while it is told to, looks at what its attention
/// reads. It changes no bits, and costs nothing while it does not look.
class LogitWatch final : public WrappedBackend {
 public:
  using WrappedBackend::WrappedBackend;

  /// From now on it looks at every forward pass of attention.
  void start();
  /// The largest logit since then, of all layers; 0 where there was none.
  double finish();

  void execute(const Operation& operation) override;

 private:
  bool looks_ = false;
  double largest_ = 0;
};

}  // namespace ng::study
