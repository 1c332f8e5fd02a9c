// Optimizers: what states a parameter has, and one step. Each is a file with its equation and a row
// of the registry. [recipes.md §6, §7]
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/parameter.h"
#include "recipe/settings.h"

namespace ng {

/// Constants of a run and of the model that it trains.
struct OptimizerSettings {
  float beta1 = 0.9f;  ///< of sgd: the momentum
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;        ///< decoupled; see decays_vectors
  int64_t heads = 1, kv_heads = 1;  ///< of attention: how the rows of q, k and v belong together
  /// Moments of fewer values stay FP32, as do those of one dimension. [errata-2, 4, 5]
  int64_t least_narrow = 4096;
  bool decays_vectors = false;  ///< weight_decay holds for tensors of one dimension, too
};

/// A step.
struct OptimizerStep {
  float lr = 0;
  int64_t step = 0;                ///< counted from 0
  StepControl* control = nullptr;  ///< clip factor and skip flag
  UpdateReport* report = nullptr;  ///< backend memory for what the update did; null: nobody asks
};

class Optimizer {
 public:
  Optimizer(const OptimizerRecipe& recipe, const OptimizerSettings& settings)
      : recipe_(recipe), settings_(settings) {}
  virtual ~Optimizer() = default;
  /// The states that a parameter has: what becomes its moment1 and, where there are two, moment2.
  [[nodiscard]] virtual std::vector<StoredSpec> states(const ParameterSpec& spec) const = 0;
  /// Registers them.
  void claim(Run& run, Parameter& parameter) const;
  /// Before any update of a step: skips it where this one's would store what its tensors do not
  /// hold (CheckUpdate).
  virtual void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const = 0;
  /// Moves the parameter by its gradient.
  virtual void update(Run& run, Parameter& parameter, const OptimizerStep& step) const = 0;

 protected:
  /// The update of a parameter by an element rule, with decay only where it has two dimensions.
  [[nodiscard]] Update update_by(OptimizerRule rule, const Run& run, const Parameter& parameter,
                                 const OptimizerStep& step) const;
  /// Does it; where ranks have parts of the parameter and its tensors scales of the whole, those
  /// are made of all parts.
  static void execute(Run& run, const Parameter& parameter, Update update);
  /// State `name` of a parameter, stored by `cast`; FP32 where that is not worth it.
  [[nodiscard]] StoredSpec state(const ParameterSpec& spec, std::string_view name,
                                 const Operand& cast) const;

  OptimizerRecipe recipe_;
  OptimizerSettings settings_;
};

[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe,
                                                        const OptimizerSettings& settings);

// ---------------------------------------------------------------- the optimizers

[[nodiscard]] std::unique_ptr<Optimizer> make_adamw(const OptimizerRecipe& recipe,
                                                    const OptimizerSettings& settings);
[[nodiscard]] std::unique_ptr<Optimizer> make_adam_mini(const OptimizerRecipe& recipe,
                                                        const OptimizerSettings& settings);
[[nodiscard]] std::unique_ptr<Optimizer> make_muon(const OptimizerRecipe& recipe,
                                                   const OptimizerSettings& settings);
[[nodiscard]] std::unique_ptr<Optimizer> make_sgd(const OptimizerRecipe& recipe,
                                                  const OptimizerSettings& settings);

}  // namespace ng
