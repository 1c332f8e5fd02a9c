#include "recipe/settings.h"

namespace ng {

LayerRecipe::LayerRecipe() {
  weights.storage = operand_of("fp32");
  for (GemmRecipe* gemm : {&linear.fprop, &linear.dgrad, &linear.wgrad})
    gemm->left = gemm->right = weights.storage;
}

RecipeSettings::RecipeSettings() {
  optimizer.moment1 = optimizer.moment2 = gradient.communicate = operand_of("fp32");
  saved.norm = saved.activation = saved.attention = operand_of("fp32");
  for (Operand* wire : {&communication.activations, &communication.weights, &communication.sums})
    *wire = operand_of("bf16");
}

}  // namespace ng
