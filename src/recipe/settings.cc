#include "recipe/settings.h"

namespace ng {

RecipeSettings::RecipeSettings() {
  const Operand fp32 = operand_of("fp32");
  for (GemmRecipe* gemm : {&linear.fprop, &linear.dgrad, &linear.wgrad})
    gemm->left = gemm->right = fp32;
  for (Operand* operand :
       {&weights.storage, &optimizer.moment1, &optimizer.moment2, &gradient.communicate})
    *operand = fp32;
  communication.activations = communication.weights = operand_of("bf16");
}

}  // namespace ng
