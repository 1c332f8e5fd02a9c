// What optimizers make of moments and gradient, one element at a time, in FP32. [recipes.md §6;
// errata-2, 3, 18, 40]
#pragma once

#include <cmath>

#include "backend/operations.h"

namespace ng::ref {

/// The element rule of an optimizer.
class ElementRule {
 public:
  ElementRule(OptimizerRule rule, const OptimizerNumbers& numbers) : rule_(rule), n_(numbers) {}

  /// The moments after gradient `g`.
  void move(float g, float& m, float& v) const {
    if (rule_ == OptimizerRule::direction || rule_ == OptimizerRule::muon) return;
    if (rule_ == OptimizerRule::sgd) {
      m = n_.beta1 * m + g;
      return;
    }
    m = n_.beta1 * m + (1 - n_.beta1) * g;
    if (rule_ == OptimizerRule::adamw) v = n_.beta2 * v + (1 - n_.beta2) * (g * g);
  }

  /// sqrt(v̂) + ε of Adam's rules.
  [[nodiscard]] float root(float v) const { return std::sqrt(v / n_.correction2) + n_.eps; }

  /// The new weight in FP32. `g` is u where the gradient is the direction itself.
  [[nodiscard]] float new_weight(float w, float m, float v, float g) const {
    const float keep = 1 - n_.lr * n_.weight_decay;
    if (rule_ == OptimizerRule::direction) return w + n_.lr * g;
    if (rule_ == OptimizerRule::sgd) return w * keep - n_.lr * m;
    if (rule_ == OptimizerRule::muon) return w * keep - n_.lr * g;
    return w * keep - n_.lr * (m / n_.correction1) / root(v);
  }

  /// u: the weight is to become w + lr·u. [errata-2, 40]
  [[nodiscard]] float direction(float w, float m, float v, float g) const {
    if (rule_ == OptimizerRule::direction) return g;
    if (rule_ == OptimizerRule::sgd) return -m - n_.weight_decay * w;
    if (rule_ == OptimizerRule::muon) return -g - n_.weight_decay * w;
    return -(m / n_.correction1) / root(v) - n_.weight_decay * w;
  }

 private:
  OptimizerRule rule_;
  OptimizerNumbers n_;
};

}  // namespace ng::ref
