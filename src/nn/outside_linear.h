// A linear layer whose tensors lie in memory of others: of a file's values, of another framework.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "nn/linear.h"

namespace ng {

/// One layer at a time in a Run that has no model: its three GEMMs over tensors that the caller
/// owns, in memory that the backend reads, with the bits that a layer of a model gives. Calls take
/// the step's memory of the run, which grows to what the largest needs, and leave nothing in it;
/// operands of the weight have memory of their own. Run::set_moment says which step and micro-batch
/// a call is of.
class OutsideLinear {
 public:
  struct Parts {
    std::string name;                  ///< "blocks.0.mlp.up"; of no other layer of the run
    std::vector<LinearRecipe> phases;  ///< the first holds until set_phase()
    int64_t outputs = 0, inputs = 0;   ///< N, K
    bool has_bias = false;
    uint32_t weight_id = 0;  ///< of the draws of W, of signs
    uint32_t input_id = 0;   ///< of X
    uint32_t output_id = 0;  ///< of dL/dY
  };
  OutsideLinear(Run& run, Parts parts);

  [[nodiscard]] const Parts& parts() const { return parts_; }

  /// The layer's parameters: FP32 or BF16.
  struct Weights {
    View weight;  ///< (N, K)
    View bias{};  ///< (1, N), where the layer has one
  };
  /// Takes an operand of a product, which is in memory of the call.
  using Taker = std::function<void(const PackedOperand&)>;
  /// y (T, N) = Q(x)·Q(W)ᵀ + b of x (T, K), both FP32 or BF16, T > 0. `taker` gets Q(x).
  void forward(const Weights& weights, const ConstView& x, const View& y, const Taker& taker = {});

  /// Where gradients go; no rows: nobody asks.
  struct Gradients {
    View input{};   ///< (T, K), FP32 or BF16
    View weight{};  ///< (N, K), FP32 or BF16
    View bias{};    ///< (1, N), FP32
  };
  /// What dW is made of: x (T, K); or, where the recipe reads that again, x as the forward GEMM
  /// read it, FP32, (T, Linear::columns_read()).
  struct Input {
    ConstView values{};
    bool is_read = false;
  };
  /// dx = Q(dy)·Q(W), dW = Q(dy)ᵀ·Q(x), db = Σ_T dy. `x` is not read where nobody asks for dW.
  void backward(const Weights& weights, const Input& x, const ConstView& dy,
                const Gradients& gradients);

  /// The phase of the recipe from now on. The state that delayed scales have where they lie now
  /// begins anew where they are others.
  void set_phase(size_t phase);

  /// The weight has the values of the calls before, and so serve the operands made of it; false: it
  /// has others from now on, or other draws.
  void keep_weight(bool is_kept);
  /// Bytes of operands that are kept.
  [[nodiscard]] size_t kept_bytes() const;

  [[nodiscard]] Linear& linear() { return linear_; }
  [[nodiscard]] const Linear& linear() const { return linear_; }

 private:
  void take(const Weights& weights);
  /// Does `body` in the memory that it takes.
  template <class Body>
  void work(const Body& body);

  Run& run_;
  Parts parts_;
  std::array<OperandMemory, 2> kept_;
  Parameter weight_, bias_;
  Linear linear_;
};

}  // namespace ng
