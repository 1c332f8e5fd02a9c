// Pre-norm feed-forward part with its residual connection.
//   GPT-2:  y = x + gelu(norm(x)·Wupᵀ)·Wdownᵀ
//   Llama:  y = x + (silu(norm(x)·Wgateᵀ) ∘ norm(x)·Wupᵀ)·Wdownᵀ
#pragma once

#include "nn/layer.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace ng {

class MlpBlock final : public Layer {
 public:
  struct Parts {
    Norm norm;
    std::vector<Linear> inputs;  ///< up (GELU), or gate and up (SwiGLU)
    Linear down;
    Gelu gelu = Gelu::tanh;   ///< where there is no gate
    uint32_t activation = 0;  ///< tensor id of down's input
    Compute compute = Compute::fp32;
  };
  explicit MlpBlock(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, View dy, const Batch& batch) override;
  void collect(std::vector<Linear*>& linears) override;
  void set_compute(Compute compute) override;

 private:
  [[nodiscard]] bool gated() const { return parts_.inputs.size() == 2; }
  /// hidden (T, F) or, gated, (T, 2·F): gate and up side by side.
  [[nodiscard]] Tensor activate(Run& run, View hidden) const;
  void activate_backward(Run& run, View dhidden, ConstView da, View hidden) const;

  Parts parts_;
};

}  // namespace ng
