// How recipes name optimizers, the rules by which updates are rounded into weights, and the numbers
// of what is computed.
#pragma once

#include "base/keys.h"
#include "base/toml.h"
#include "recipe/settings.h"

namespace ng {

inline const Choices<Compute> kComputes = {{{"fp32", Compute::fp32}, {"bf16", Compute::bf16}}};

inline const Choices<UpdateRule> kUpdateRules = {{{"nearest", UpdateRule::nearest},
                                                  {"stochastic", UpdateRule::stochastic},
                                                  {"precision_aware", UpdateRule::precision_aware},
                                                  {"kahan", UpdateRule::kahan},
                                                  {"residual", UpdateRule::residual}}};

inline const Choices<OptimizerRecipe::Kind> kOptimizerKinds = {
    {{"adamw", OptimizerRecipe::Kind::adamw},
     {"adam_mini", OptimizerRecipe::Kind::adam_mini},
     {"muon", OptimizerRecipe::Kind::muon},
     {"sgd", OptimizerRecipe::Kind::sgd}}};

/// "kahan" in quotes, or a list of a rule and "momentum_feedback": weights.update as TOML.
[[nodiscard]] inline std::string update_text(const WeightStorage& weights) {
  const std::string rule = toml_quote(kUpdateRules.name_of(weights.update));
  return weights.momentum_feedback ? "[" + rule + ", \"momentum_feedback\"]" : rule;
}

}  // namespace ng
