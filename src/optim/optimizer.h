// Optimizers: what states a parameter has, and one step. Each is a file with its equation and a row
// of the registry. [recipes.md §6, §7]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  /// Moments of fewer values stay FP32 where their min_size says nothing, as do those of one
  /// dimension. [errata-2, 4, 5]
  int64_t least_narrow = 4096;
  bool decays_vectors = false;  ///< weight_decay holds for tensors of one dimension, too
};

/// A step.
struct OptimizerStep {
  float lr = 0;
  int64_t step = 0;                ///< counted from 0
  StepControl* control = nullptr;  ///< clip factor and skip flag
  UpdateReport* report = nullptr;  ///< backend memory for what the update did; null: nobody asks
  /// Where has_shared_scales: the largest that find_maxima found in any part.
  const UpdateMaxima* maxima = nullptr;
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
  virtual void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const;
  /// Whether the parameter, a part of a tensor, has one scale of all of that for any of its own
  /// tensors; false where matrices move as a whole.
  [[nodiscard]] bool has_shared_scales(const Run& run, const Parameter& parameter) const;
  /// What such scales are made of, in this part.
  void find_maxima(Run& run, const Parameter& parameter, const OptimizerStep& step,
                   UpdateMaxima* maxima) const;
  /// How the values of a parameter move, after what Adam-mini and Muon make of a matrix as a whole.
  [[nodiscard]] virtual OptimizerRule rule_of(const ParameterSpec& /* spec */) const {
    return rule().value();
  }
  /// The numbers of a step, with decay only where the parameter has two dimensions.
  [[nodiscard]] OptimizerNumbers numbers_of(const ParameterSpec& spec, float lr,
                                            int64_t step) const;
  /// Moves the parameter by its gradient.
  virtual void update(Run& run, Parameter& parameter, const OptimizerStep& step) const;

 protected:
  /// How every value of every parameter moves, by itself; none where check and update say.
  [[nodiscard]] virtual std::optional<OptimizerRule> rule() const { return {}; }
  /// The update of a parameter by an element rule.
  [[nodiscard]] Update update_by(OptimizerRule rule, const Run& run, const Parameter& parameter,
                                 const OptimizerStep& step) const;
  /// State `name` of a parameter, stored by `cast`; FP32 where that is not worth it.
  [[nodiscard]] StoredSpec state(const ParameterSpec& spec, std::string_view name,
                                 const Operand& cast) const;
  /// That of the means of squares, none of which is below zero.
  [[nodiscard]] StoredSpec second_moment(const ParameterSpec& spec) const;

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
