// Optimizers: what states a parameter has, and one step. Each is a file with its equation and a row
// of the registry. [recipes.md §6, §7]
#pragma once

#include <cstdint>
#include <memory>

#include "nn/parameter.h"
#include "recipe/settings.h"

namespace ng {

/// Constants of a run.
struct OptimizerSettings {
  float beta1 = 0.9f;  ///< of sgd: the momentum
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;  ///< decoupled, on tensors of two dimensions
};

/// A step.
struct OptimizerStep {
  float lr = 0;
  int64_t step = 0;                      ///< counted from 0
  const StepControl* control = nullptr;  ///< clip factor and skip flag
};

class Optimizer {
 public:
  Optimizer(const OptimizerRecipe& recipe, const OptimizerSettings& settings)
      : recipe_(recipe), settings_(settings) {}
  virtual ~Optimizer() = default;
  /// Registers a parameter's states.
  virtual void claim(Run& run, Parameter& parameter) const = 0;
  /// Moves the parameter by its gradient.
  virtual void update(Run& run, Parameter& parameter, const OptimizerStep& step) const = 0;

 protected:
  /// One update of a parameter by an element rule, with decay only where it has two dimensions.
  void update_by(OptimizerRule rule, Run& run, Parameter& parameter,
                 const OptimizerStep& step) const;

  OptimizerRecipe recipe_;
  OptimizerSettings settings_;
};

/// Throws Error for one that this version does not have.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe,
                                                        const OptimizerSettings& settings);

/// Registers state `name` of a parameter, stored by `cast`; tensors of one dimension, and of fewer
/// than 4,096 values, are too few to be worth it and stay FP32. [errata-2, 4, 5]
[[nodiscard]] Stored claim_state(Run& run, const Parameter& parameter, std::string_view name,
                                 const Operand& cast);

// ---------------------------------------------------------------- the optimizers

[[nodiscard]] std::unique_ptr<Optimizer> make_adamw(const OptimizerRecipe& recipe,
                                                    const OptimizerSettings& settings);
[[nodiscard]] std::unique_ptr<Optimizer> make_sgd(const OptimizerRecipe& recipe,
                                                  const OptimizerSettings& settings);

}  // namespace ng
