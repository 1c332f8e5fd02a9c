// What a recipe would do to the tensors of a file: each operand that products make of one, and as
// what it would be stored.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "tools/format_trial.h"
#include "tools/tensor_layer.h"

namespace ng {

/// One cast of one tensor.
struct RecipeUse {
  std::string layer;    ///< "blocks.0.mlp.up"
  std::string operand;  ///< "fprop.weight", "stored", "communicated"
  FormatTrial trial;
  int hadamard = 0;  ///< size of the transform before the cast, which is left out here; 0: none
};

/// Of a weight of a linear layer the operands of fprop and dgrad, of what capture writes those of
/// x, dy and dw too, of any parameter as what it is stored where that is not FP32. Random draws are
/// those of step 0; a delayed scale is the tensor's own. Empty where the name says no layer.
[[nodiscard]] std::vector<RecipeUse> try_recipe(const io::SafetensorsEntry& entry,
                                                ParameterNames& names, const Recipe& recipe,
                                                int phase, Threads threads,
                                                const TensorProgress& progress);

}  // namespace ng
