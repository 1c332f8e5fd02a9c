// Which parameter an update of a file is of, how a recipe stores it, and how far it goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/parameter.h"
#include "optim/optimizer.h"
#include "recipe/recipe.h"
#include "tools/update_input.h"

namespace ng {

/// The parameter that `layer` names, "blocks.0.mlp.up" or "blocks.0.mlp.up.bias", in the shape of
/// the file's weight. Throws Error for an unknown one, and where a vector is no (1, n).
[[nodiscard]] ParameterSpec parameter_of(const std::string& layer, const UpdateInput& input);

/// Throws Error where heads do not divide the rows of q, k or qkv for an optimizer that parts them.
void check_heads(OptimizerRecipe::Kind kind, const OptimizerSettings& settings,
                 const ParameterSpec& spec);

/// What the recipe says of the parameter in a model of `blocks` blocks; 0: its own is the last.
/// Throws Error for what this version cannot do, and for feedback where there is no moment.
[[nodiscard]] WeightStorage storage_of(const Recipe& recipe, const ParameterSpec& spec,
                                       int64_t blocks, bool has_direction);

/// Throws Error where momentum is fed back that beta1 = 0 does not keep.
void check_feedback(const WeightStorage& storage, const OptimizerSettings& settings);

/// How many updates, and which of them are shown.
struct UpdatePlan {
  int64_t steps = 0;
  std::vector<int64_t> show;  ///< ascending, from 0 to steps
};
/// By flags, 0 and empty where they say nothing, and by what the file has. Throws Error where the
/// flags want more.
[[nodiscard]] UpdatePlan plan_of(UpdatePlan flags, uint32_t first_step, const UpdateInput& input);

}  // namespace ng
