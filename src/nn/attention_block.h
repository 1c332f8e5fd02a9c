// Pre-norm self-attention with its residual connection:
//   n = norm(x);  q, k, v = n·Wᵀ (+ RoPE);  a = softmax(q·kᵀ/√d, causal)·v;  y = x + a·Woᵀ
// Grouped-query attention: kv_heads key and value heads serve heads / kv_heads query heads each.
#pragma once

#include <array>
#include <optional>

#include "nn/layer.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace ng {

class AttentionBlock final : public Layer {
 public:
  struct Parts {
    Norm norm;
    std::vector<Linear> projections;  ///< one (q, k, v fused) or three (q, k, v)
    Linear out;
    int64_t block = 0;  ///< index, for the KV cache
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    View rope_table;         ///< rows == 0: learned positions, no RoPE
    uint32_t attention = 0;  ///< tensor id of a
    Compute compute = Compute::fp32;
  };
  explicit AttentionBlock(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, View dy, const Batch& batch) override;
  void collect(std::vector<Linear*>& linears) override;
  void set_compute(Compute compute) override;

 private:
  /// q, k and v side by side in one tensor (T, (heads + 2·kv_heads) · head_dim).
  struct Qkv {
    View q, k, v;
  };
  [[nodiscard]] Qkv split(View qkv) const;
  [[nodiscard]] AttentionShape shape(const Batch& batch) const;
  [[nodiscard]] Tensor project(Run& run, ConstView x, const Batch& batch);
  void project_backward(Run& run, View dn, ConstView x, const Tensor& dqkv, const Batch& batch);
  void rotate(Run& run, View qkv, const Batch& batch, bool inverse) const;
  void attend(Run& run, View a, View lse, View qkv, const Batch& batch) const;

  Parts parts_;
};

}  // namespace ng
