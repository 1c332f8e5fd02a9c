// The six operands of a linear layer, and which parts of its recipe are theirs.
#pragma once

#include <cstdint>
#include <string_view>

#include "recipe/recipe.h"

namespace ng {

/// Which of the six operands of a linear layer, in the order of their random purposes.
enum class OperandRole : uint8_t {
  fprop_input,
  fprop_weight,
  dgrad_grad,
  dgrad_weight,
  wgrad_grad,
  wgrad_input,
};
constexpr size_t kOperandRoles = 6;
[[nodiscard]] std::string_view name_of(OperandRole role);
[[nodiscard]] constexpr bool is_weight(OperandRole role) {
  return role == OperandRole::fprop_weight || role == OperandRole::dgrad_weight;
}

/// What a recipe fixes of an operand: all but its sizes and the signs of its Hadamard transform.
[[nodiscard]] OperandSpec operand_form(const LinearRecipe& recipe, OperandRole role);
[[nodiscard]] const GemmRecipe& gemm_of(const LinearRecipe& recipe, OperandRole role);
[[nodiscard]] GemmRecipe& gemm_of(LinearRecipe& recipe, OperandRole role);
[[nodiscard]] const Operand& cast_of(const LinearRecipe& recipe, OperandRole role);
[[nodiscard]] Operand& cast_of(LinearRecipe& recipe, OperandRole role);

/// Whether a cast can move values out of its range or to zero: all but FP32 and BF16, which cover
/// the same range.
[[nodiscard]] bool can_lose_values(const Operand& cast);

/// As if its scale were of its own values: what says how it is delayed means nothing any more.
void scale_by_itself(Operand& cast);

/// What its draws are for.
[[nodiscard]] Purpose purpose_of(OperandRole role);
/// Which number its GEMM has among those that draw Hadamard signs.
[[nodiscard]] uint32_t gemm_group(OperandRole role);

}  // namespace ng
