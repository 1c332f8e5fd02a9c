// How large the logits of attention are: those of a language model grow before training becomes
// unstable. [Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters";
// Wortsman et al. 2023, "Small-scale proxies for large-scale Transformer training instabilities"]
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace ng::study {

/// The largest |q·k|/√head_dim over all heads and all pairs that causal mask and window let
/// through, q and k as attention reads them (behind RoPE): q (sequences · length, heads ·
/// head_dim), k (sequences · kv_stride, kv_heads · head_dim), both row by row without gaps. Sums in
/// FP64. NaN where some logit is NaN.
[[nodiscard]] double largest_logit(std::span<const float> q, std::span<const float> k,
                                   const AttentionShape& shape);

/// A backend that does what another does and, while it is told to, looks at what its attention
/// reads. It changes no bits, and costs nothing while it does not look.
class LogitWatch final : public Backend {
 public:
  explicit LogitWatch(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// From now on it looks at every forward pass of attention.
  void start();
  /// The largest logit since then, of all layers; 0 where there was none.
  double finish();

  [[nodiscard]] std::string_view name() const override { return backend_->name(); }
  [[nodiscard]] size_t scratch_bytes() const override { return backend_->scratch_bytes(); }
  std::byte* allocate(size_t bytes) override { return backend_->allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { backend_->release(memory, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    backend_->upload(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    backend_->download(to, from, bytes);
  }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return backend_->operand_bytes(spec);
  }
  void execute(const Operation& operation) override;

 private:
  std::unique_ptr<Backend> backend_;
  bool looks_ = false;
  double largest_ = 0;
};

}  // namespace ng::study
