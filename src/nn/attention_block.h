// Pre-norm self-attention with its residual connection:
//   n = norm(x);  q, k, v = n·Wᵀ (+ RoPE);  a = softmax(q·kᵀ/√d, causal)·v;  y = x + a·Woᵀ
// Causal: all tokens before, or those of a window.
// Where heads have norms, q and k go through them by head before RoPE. [Dehghani et al. 2023]
// Grouped-query attention: kv_heads key and value heads serve heads / kv_heads query heads each.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "nn/kept_input.h"
#include "nn/layer.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/saved.h"
#include "nn/tensor_group.h"
#include "recipe/settings.h"

namespace ng {

class AttentionBlock final : public Layer {
 public:
  /// Over the head_dim values of a head, one gain for all of q's heads and one for all of k's.
  struct HeadNorms {
    NormLayer q, k;
  };
  struct Parts {
    NormLayer norm;
    std::vector<Linear> projections;  ///< one (q, k, v fused) or three (q, k, v)
    Linear out;
    std::string name;   ///< "blocks.3.attn"
    int64_t block = 0;  ///< index, for the KV cache
    int heads = 0;      ///< of this rank
    int kv_heads = 0;
    int head_dim = 0;
    int64_t window = 0;  ///< tokens that each sees, itself included; 0: all before it
    std::optional<HeadNorms> head_norms;
    View rope_table;         ///< rows == 0: learned positions, no RoPE
    uint32_t attention = 0;  ///< tensor id of a
    TokenWires wires;
    AttentionRecipe numbers;
    SavedRecipe saved;
  };
  explicit AttentionBlock(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, ResidualGradient& dy, const Batch& batch) override;
  [[nodiscard]] bool reads_amax_of_gradient(const Run& run) const override {
    return parts_.out.reads_amax_of_gradient(run);
  }
  void collect(std::vector<Linear*>& linears) override;

 private:
  /// q, k and v side by side in one tensor (T, (heads + 2·kv_heads) · head_dim).
  struct Qkv {
    View q, k, v;
  };
  [[nodiscard]] Qkv split(const View& qkv) const;
  /// What attention reads; where heads have norms, q and k are in `made`.
  struct Heads {
    Tensor made;
    Qkv of;
  };
  /// Of what project() gave, which is kept: norms are cheaper than the memory of their outputs.
  [[nodiscard]] Heads read_heads(Run& run, const Tensor& qkv, const Batch& batch) const;
  /// In place: the gradient of what attention read becomes that of what was projected.
  void heads_backward(Run& run, const Qkv& d, const Tensor& qkv, const Batch& batch) const;
  [[nodiscard]] AttentionShape shape(const Batch& batch) const;
  /// Turned by RoPE, but where norms come before that.
  [[nodiscard]] Tensor project(Run& run, const ConstView& x, const Batch& batch);
  /// norm(x) as the projections read it.
  [[nodiscard]] Source read_norm(Run& run, const ConstView& x, bool is_backward) const;
  [[nodiscard]] KeptInput kept_input() const {
    return {parts_.projections, parts_.norm.output(), parts_.saved.norm};
  }
  [[nodiscard]] KeptInput input_of_out() const {
    return {{&parts_.out, 1}, parts_.attention, parts_.saved.attention};
  }
  /// `kept`: of what the projections read, where that is.
  [[nodiscard]] Tensor project_backward(Run& run, const ConstView& x, const Tensor& dqkv,
                                        std::optional<Source> kept);
  void rotate(Run& run, const Qkv& parts, const Batch& batch, bool inverse) const;
  void attend(Run& run, const View& a, const View& lse, Qkv parts, const Batch& batch,
              const AmaxSlot& amax) const;

  Parts parts_;
};

}  // namespace ng
