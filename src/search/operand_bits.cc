#include "search/operand_bits.h"

#include "format/operand.h"
#include "recipe/layer_names.h"
#include "speed/layer_speed.h"

namespace ng::search {

OperandBits operand_bits(const ModelConfig& model, const Recipe& recipe) {
  OperandBits sum{};
  double all = 0;
  for (const LayerKind& kind : layer_kinds(model, recipe, 0)) {
    double layers = 0;
    for (const std::string& name : kind.names) layers += layers::place_of(name).block >= 0 ? 1 : 0;
    const double values =
        layers * static_cast<double>(kind.outputs) * static_cast<double>(kind.inputs);
    const GemmRecipe* const gemms[] = {&kind.recipe.fprop, &kind.recipe.dgrad, &kind.recipe.wgrad};
    for (size_t g = 0; g < sum.size(); ++g) {
      sum[g].left += values * bits_per_value(gemms[g]->left);
      sum[g].right += values * bits_per_value(gemms[g]->right);
    }
    all += values;
  }
  for (GemmBits& bits : sum) bits = {bits.left / all, bits.right / all};
  return sum;
}

}  // namespace ng::search
