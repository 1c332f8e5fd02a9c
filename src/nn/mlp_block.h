// Pre-norm feed-forward part with its residual connection.
//   GPT-2:  y = x + gelu(norm(x)·Wupᵀ)·Wdownᵀ
//   Llama:  y = x + (silu(norm(x)·Wgateᵀ) ∘ norm(x)·Wupᵀ)·Wdownᵀ
#pragma once

#include <string>

#include "nn/kept_input.h"
#include "nn/layer.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/saved.h"
#include "nn/tensor_group.h"
#include "recipe/settings.h"

namespace ng {

class MlpBlock final : public Layer {
 public:
  struct Parts {
    NormLayer norm;
    std::vector<Linear> inputs;  ///< up (GELU), or gate and up (SwiGLU)
    Linear down;
    std::string name;                ///< "blocks.3.mlp"
    GeluKind gelu = GeluKind::tanh;  ///< where there is no gate
    uint32_t activation = 0;         ///< tensor id of down's input
    TokenWires wires;
    SavedRecipe saved;
  };
  explicit MlpBlock(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, ResidualGradient& dy, const Batch& batch) override;
  [[nodiscard]] bool reads_amax_of_gradient(const Run& run) const override {
    return parts_.down.reads_amax_of_gradient(run);
  }
  void collect(std::vector<Linear*>& linears) override;

 private:
  [[nodiscard]] bool gated() const { return parts_.inputs.size() == 2; }
  [[nodiscard]] KeptInput input_of_inputs() const {
    return {parts_.inputs, parts_.norm.output(), parts_.saved.norm};
  }
  [[nodiscard]] KeptInput input_of_down() const {
    return {{&parts_.down, 1}, parts_.activation, parts_.saved.activation};
  }
  /// norm(x) as the inputs read it.
  [[nodiscard]] Source read_norm(Run& run, const ConstView& x, bool is_backward) const;
  /// hidden (T, F) or, gated, (T, 2·F): gate and up side by side.
  [[nodiscard]] Source activate(Run& run, const View& hidden, bool is_backward) const;
  /// Of each input's part of dhidden.
  using Amaxima = std::array<AmaxSlot, 2>;
  void activate_backward(Run& run, const View& dhidden, const ConstView& da, const View& hidden,
                         const Amaxima& amax) const;

  Parts parts_;
};

}  // namespace ng
