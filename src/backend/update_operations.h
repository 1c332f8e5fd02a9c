// What changes a weight: an optimizer's rule, the rounding into what is stored, and moments as they
// are stored. Rules for all operations: operations.h. [recipes.md §4.2, §5, §6; errata-2]
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/operand_spec.h"
#include "backend/operation_words.h"
#include "backend/tensor_operations.h"
#include "tensor/stored.h"

namespace ng {

/// y = x, rounded by y's cast; stochastic draws are those of `key`.
struct Store {
  static constexpr std::string_view kName = "store";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  Stored y;
  ConstView x;
  RandomKey key;
  template <class F>
  void each_output(const F& f) const {
    f("y", y.view);
  }
};

/// How a new value is rounded into a weight of which there is no wider copy. [recipes.md §5]
enum class UpdateRule : uint8_t { nearest, stochastic, precision_aware, kahan, residual };

/// A weight, and how an update goes into it.
struct UpdatedWeight {
  Stored value{};   ///< what GEMMs read
  Stored master{};  ///< a wider copy that updates go into, from which the value is made
  View carry{};  ///< kahan: what the sum lacks, BF16; residual: int8 or int4, in units of the ulp
                 ///< of the value's element over 2^bits. No rows: none
  UpdateRule rule = UpdateRule::nearest;  ///< without master
  bool momentum_feedback = false;         ///< the error of rounding goes into the first moment
  float rtol = 1e-2f;                     ///< precision_aware: of ‖update‖
  int max_iters = 32;                     ///< precision_aware: most bisections
};

/// What an optimizer makes of moments and gradient. [recipes.md §6]
enum class OptimizerRule : uint8_t {
  adamw,
  sgd,        ///< B = beta1·B + g, the first moment; w - lr·B
  direction,  ///< the gradient is u itself: w + lr·u; no moments
};

/// Numbers of one step. [recipes.md §6]
struct OptimizerNumbers {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  float weight_decay = 0;  ///< 0 for tensors of one dimension
  float correction1 = 1;   ///< 1 - beta1^t
  float correction2 = 1;   ///< 1 - beta2^t
};

/// What an update did, in backend memory. Δ: what the value, as it is stored, changed by; Δ*: what
/// was asked, lr·u.
struct UpdateReport {
  double update_squares = 0;  ///< Σ Δ²
  double target_squares = 0;  ///< Σ Δ*²
  double product = 0;         ///< Σ Δ·Δ*
  uint64_t changed = 0;       ///< weights whose value is another
  double alpha = 0;           ///< precision_aware: the step that was taken instead of lr
};

/// One step of one tensor, in FP32 in this order, no fused multiply-add [errata-2, 3, 20-23, 40]:
///   g = grad·grad_scale
///   adamw: m = beta1·m + (1 - beta1)·g;  v = beta2·v + (1 - beta2)·(g·g)
///     with a master, in FP32, and with feedback
///       x = w·(1 - lr·weight_decay) - (lr·(m/correction1)) / (sqrt(v/correction2) + eps)
///     else u = -(m/correction1) / (sqrt(v/correction2) + eps) - weight_decay·w
///   sgd: B = beta1·B + g;  x = w·(1 - lr·weight_decay) - lr·B, or u = -B - weight_decay·w
///   then D = lr·u, and the rule rounds w + D.
struct Update {
  static constexpr std::string_view kName = "update";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  OptimizerRule optimizer = OptimizerRule::adamw;
  UpdatedWeight weight;
  Stored moment1{}, moment2{};
  ConstView grad;  ///< `direction`: u
  OptimizerNumbers numbers;
  RandomKey key{};                       ///< seed, tensor, step; purposes are the operation's
  const StepControl* control = nullptr;  ///< null: grad_scale 1, never skipped
  UpdateReport* report = nullptr;        ///< null: nobody asks

  /// Every tensor that is there has the gradient's shape.
  void check_shapes() const {
    for (const View& x : {weight.master.view, weight.carry, moment1.view, moment2.view})
      NG_CHECK(x.rows == 0 || same_shape(x, grad), x.rows, x.cols, grad.rows, grad.cols);
    const View& value = weight.value.view;
    NG_CHECK(same_shape(value, grad), value.rows, value.cols, grad.rows, grad.cols);
  }
  template <class F>
  void each_output(const F& f) const {
    f("weight", weight.value.view);
    if (weight.master) f("master", weight.master.view);
    if (moment1) f("moment1", moment1.view);
    if (moment2) f("moment2", moment2.view);
  }
};

/// Before any update of a step: whether this one would store a moment above the largest value of
/// its format, or a weight that is not finite. Then control->skip becomes 1 and `overflowing` names
/// the first such tensor. Scales follow the values, so moments with scales hold what FP32 holds; a
/// finite weight above its format's largest saturates. [errata-2, 21, 23]
struct CheckUpdate {
  static constexpr std::string_view kName = "check_update";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  Update update;
  StepControl* control = nullptr;
  uint32_t parameter = 0;  ///< what `overflowing_parameter` becomes
  template <class F>
  void each_output(const F& /* f */) const {}
};

}  // namespace ng
