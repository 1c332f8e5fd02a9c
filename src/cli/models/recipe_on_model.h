// A recipe on a model: how each GEMM of its linear layers runs here, and how fast.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cli/models/open_model.h"
#include "recipe/recipe.h"

namespace ng::cli {

/// For every phase the layers by shape and numbers: how they run, seconds of forward and backward
/// in the recipe and in FP32, measured now.
[[nodiscard]] Json recipe_on_model(const Recipe& recipe, StepFlags step,
                                   const MachineFlags& machine);

/// The same as lines and a table.
[[nodiscard]] std::string text_of_recipe_on_model(const Json& measured);

}  // namespace ng::cli
