// What optimizers make of moments and gradient, one element at a time, in FP32, for host and
// device. [recipes.md §6; errata-2, 3, 18, 40]
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace ng {

/// What an optimizer makes of moments and gradient. [recipes.md §6]
enum class OptimizerRule : uint8_t {
  adamw,
  adam_mini,  ///< adamw whose second moment, one for each block of rows, has moved already
  sgd,        ///< B = beta1·B + g, the first moment; w - lr·B
  muon,       ///< the gradient is the step to go against, clipped already; no moments
  direction,  ///< the gradient is u itself: w + lr·u; no moments
};

/// Numbers of one step. [recipes.md §6]
struct OptimizerNumbers {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  float weight_decay = 0;  ///< 0 for tensors of one dimension
  float correction1 = 1;   ///< 1 - beta1^t
  float correction2 = 1;   ///< 1 - beta2^t
};

/// The element rule of an optimizer.
class ElementRule {
 public:
  NG_HD ElementRule(OptimizerRule rule, const OptimizerNumbers& numbers)
      : rule_(rule), n_(numbers) {}

  /// The moments after gradient `g`.
  NG_HD void move(float g, float& m, float& v) const {
    if (rule_ == OptimizerRule::direction || rule_ == OptimizerRule::muon) return;
    if (rule_ == OptimizerRule::sgd) {
      m = n_.beta1 * m + g;
      return;
    }
    m = n_.beta1 * m + (1 - n_.beta1) * g;
    if (rule_ == OptimizerRule::adamw) v = n_.beta2 * v + (1 - n_.beta2) * (g * g);
  }

  /// sqrt(v̂) + ε of Adam's rules.
  [[nodiscard]] NG_HD float root(float v) const { return std::sqrt(v / n_.correction2) + n_.eps; }

  /// The new weight in FP32. `g` is u where the gradient is the direction itself.
  [[nodiscard]] NG_HD float new_weight(float w, float m, float v, float g) const {
    const float keep = 1 - n_.lr * n_.weight_decay;
    if (rule_ == OptimizerRule::direction) return w + n_.lr * g;
    if (rule_ == OptimizerRule::sgd) return w * keep - n_.lr * m;
    if (rule_ == OptimizerRule::muon) return w * keep - n_.lr * g;
    return w * keep - n_.lr * (m / n_.correction1) / root(v);
  }

  /// u: the weight is to become w + lr·u. [errata-2, 40]
  [[nodiscard]] NG_HD float direction(float w, float m, float v, float g) const {
    if (rule_ == OptimizerRule::direction) return g;
    if (rule_ == OptimizerRule::sgd) return -m - n_.weight_decay * w;
    if (rule_ == OptimizerRule::muon) return -g - n_.weight_decay * w;
    return -(m / n_.correction1) / root(v) - n_.weight_decay * w;
  }

 private:
  OptimizerRule rule_;
  OptimizerNumbers n_;
};

}  // namespace ng
