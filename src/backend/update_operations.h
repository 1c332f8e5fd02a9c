// What changes a weight: an optimizer's rule, the rounding into what is stored, and moments as they
// are stored. Rules for all operations: operations.h. [recipes.md §4.2, §5, §6; errata-2]
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/operand_spec.h"
#include "backend/operation_words.h"
#include "backend/optimizer_rule.h"
#include "backend/step_search.h"
#include "backend/tensor_operations.h"
#include "tensor/row_blocks.h"
#include "tensor/stored.h"

namespace ng {

/// y = x, rounded by y's cast; stochastic draws are those of `key`. Nothing happens in a step that
/// is skipped.
struct Store {
  static constexpr std::string_view kName = "store";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  Stored y;
  ConstView x;
  RandomKey key;
  const StepControl* control = nullptr;  ///< null: never skipped
  /// Of which a scale of the whole tensor is made: FindAmax of all of which x is a part, at least
  /// that of x. null: that of x.
  const float* amax = nullptr;
  void each_output(const auto& f) const { f("y", y.view); }
};

/// How the encode scale of a gradient gives way where its format saturates: it is multiplied by
/// mu = 2^(k/window). One row of FP32, so that checkpoints hold it. [recipes.md §4.2; errata-2, 32]
struct AutoScale {
  float mu = 1;
  float k = 0;  ///< a whole number
};

/// amax = the largest |x|; not finite where x has a value that is not.
struct FindAmax {
  static constexpr std::string_view kName = "find_amax";
  static constexpr TimeKind kTime = TimeKind::quantize;
  float* amax = nullptr;
  ConstView x;  ///< FP32 or BF16
  void each_output(const auto& /* f */) const {}
};

/// y = x, a gradient as it is sent and kept from its last contribution to the update. One FP32 or
/// pow2 scale for the tensor is fl(mu·s), s of Store but at most 2^100, so that sums over ranks
/// stay finite. Where x or `amax` has a value that is not finite, so has what y stands for.
/// [errata-2, 27-29, 41]
struct StoreGradient {
  static constexpr std::string_view kName = "store_gradient";
  static constexpr TimeKind kTime = TimeKind::quantize;
  Stored y;
  ConstView x;  ///< FP32 or BF16
  RandomKey key;
  const AutoScale* scale = nullptr;  ///< null: mu is 1
  /// Of which a scale of the whole tensor is made: FindAmax of all of which x is a part, at least
  /// that of x. null: that of x.
  const float* amax = nullptr;
  void each_output(const auto& f) const { f("y", y.view); }
};

/// After the step was decided: where the share of codes of the largest magnitude is above
/// `threshold` k falls by `window`, else it grows by 1, within ±24 windows; a skipped step leaves
/// it. mu follows. Where `good_steps` counts, only from `growth_after` good steps in a row on.
/// [errata-2, 32; 004, "Implementation Notes"]
struct MoveAutoScale {
  static constexpr std::string_view kName = "move_auto_scale";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  AutoScale* scale = nullptr;
  ConstView codes;  ///< elements of eight bits
  double threshold = 1e-5;
  int64_t window = 1000;
  float* good_steps = nullptr;  ///< in a row, at most `growth_after`; null: the first one counts
  int64_t growth_after = 1;
  const StepControl* control = nullptr;
  void each_output(const auto& /* f */) const {}
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
  bool keeps_scale = true;  ///< one power of two for the value stays while it fits: not where the
                            ///< value is made anew of its master, as no checkpoint has it
  float rtol = 1e-2f;       ///< precision_aware: of ‖update‖
  int max_iters = 32;       ///< precision_aware: most bisections
  StepSearch search = StepSearch::norms;  ///< precision_aware
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

/// The largest magnitudes of a tensor's new values in FP32, in backend memory: scales of whole
/// tensors are made of them. `weight`: before it is rounded into the master or the value.
struct UpdateMaxima {
  float weight = 0, moment1 = 0, moment2 = 0;
};

/// One step of one tensor, in FP32 in this order, no fused multiply-add [errata-2, 3, 20-23, 40]:
///   g = grad·grad_scale
///   adamw: m = beta1·m + (1 - beta1)·g;  v = beta2·v + (1 - beta2)·(g·g)
///     with a master, in FP32, and with feedback
///       x = w·(1 - lr·weight_decay) - (lr·(m/correction1)) / (sqrt(v/correction2) + eps)
///     else u = -(m/correction1) / (sqrt(v/correction2) + eps) - weight_decay·w
///   adam_mini: the same with v as it is, one for each block of rows
///   sgd: B = beta1·B + g;  x = w·(1 - lr·weight_decay) - lr·B, or u = -B - weight_decay·w
///   muon: sgd's x and u with B = grad
///   then D = lr·u, and the rule rounds w + D.
struct Update {
  static constexpr std::string_view kName = "update";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  OptimizerRule optimizer = OptimizerRule::adamw;
  UpdatedWeight weight;
  Stored moment1{};
  Stored moment2{};    ///< adam_mini: (blocks, 1), FP32
  RowBlocks blocks{};  ///< adam_mini: of moment2
  ConstView grad;      ///< `direction`: u
  OptimizerNumbers numbers;
  RandomKey key{};                       ///< seed, tensor, step; purposes are the operation's
  const StepControl* control = nullptr;  ///< null: grad_scale 1, never skipped
  UpdateReport* report = nullptr;        ///< null: nobody asks
  /// FindUpdateMaxima of all of which these tensors are parts, whose scales of whole tensors they
  /// share; null: these are all. Only where has_shared_scales() says so.
  const UpdateMaxima* maxima = nullptr;

  /// Whether any tensor has one scale for all of it that maxima decide: not what rounding gives
  /// back to a moment, nor second levels of scales.
  [[nodiscard]] bool has_shared_scales() const {
    const auto has_one = [](const Stored& x) {
      return x && !x.cast.is_unscaled() && x.cast.block.kind == Block::Kind::tensor;
    };
    return has_one(weight.value) || has_one(weight.master) || has_one(moment1) || has_one(moment2);
  }

  /// Every tensor that is there has the gradient's shape, but moments of blocks.
  void check_shapes() const {
    for (const View& x : {weight.master.view, weight.carry, moment1.view})
      NG_CHECK(x.rows == 0 || same_shape(x, grad), x.rows, x.cols, grad.rows, grad.cols);
    const View& v = moment2.view;
    const bool fits = optimizer == OptimizerRule::adam_mini
                          ? v.rows == blocks.blocks() && v.cols == 1 && blocks.rows() == grad.rows
                          : v.rows == 0 || same_shape(v, grad);
    NG_CHECK(fits, v.rows, v.cols, grad.rows, grad.cols);
    const View& value = weight.value.view;
    NG_CHECK(same_shape(value, grad), value.rows, value.cols, grad.rows, grad.cols);
  }
  /// What gradients are multiplied by: clipping.
  [[nodiscard]] float grad_scale() const {
    return optimizer == OptimizerRule::muon ? 1.0f : grad_scale_of(control);
  }
  void each_output(const auto& f) const {
    f("weight", weight.value.view);
    if (weight.master) f("master", weight.master.view);
    if (moment1) f("moment1", moment1.view);
    if (moment2) f("moment2", moment2.view);
  }
};

/// *maxima = of what `update` would store; nothing in a step that is skipped.
struct FindUpdateMaxima {
  static constexpr std::string_view kName = "find_update_maxima";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  Update update;
  UpdateMaxima* maxima = nullptr;
  void each_output(const auto& /* f */) const {}
};

/// One second moment for each block of rows, g = grad·grad_scale:
///   v = beta2·v + (1 - beta2)·mean of g² over the block
/// The sum of squares of a row is in FP64, rows are added in order, the mean is rounded to FP32.
/// Nothing happens in a step that is skipped. [Zhang et al. 2024, Adam-mini; recipes.md §6]
struct MoveBlockMoment {
  static constexpr std::string_view kName = "move_block_moment";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  View moment;  ///< (blocks, 1), FP32
  ConstView grad;
  RowBlocks blocks;
  float beta2 = 0;
  const StepControl* control = nullptr;  ///< null: grad_scale 1, never skipped
  void each_output(const auto& f) const { f("moment", moment); }
};

/// Nesterov's momentum, g = grad·grad_scale:
///   sum = mu·momentum + g;  ahead = g + mu·sum
/// In FP32 in this order. Nothing happens in a step that is skipped. [recipes.md §6, Muon]
struct MoveMomentum {
  static constexpr std::string_view kName = "move_momentum";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  View sum;    ///< FP32; may be `momentum`
  View ahead;  ///< FP32
  ConstView momentum;
  ConstView grad;
  float mu = 0;
  const StepControl* control = nullptr;  ///< null: grad_scale 1, never skipped
  void each_output(const auto& f) const {
    f("sum", sum);
    f("ahead", ahead);
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
  void each_output(const auto& /* f */) const {}
};

}  // namespace ng
