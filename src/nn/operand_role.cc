#include "nn/operand_role.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ng {
namespace {

bool is_left(OperandRole role) {
  return role == OperandRole::fprop_input || role == OperandRole::dgrad_grad ||
         role == OperandRole::wgrad_grad;
}

// fprop contracts columns of x and W, dgrad rows of W, wgrad rows of dy and x.
Contract contract_of(OperandRole role) {
  const bool rows = role == OperandRole::dgrad_weight || role == OperandRole::wgrad_grad ||
                    role == OperandRole::wgrad_input;
  return rows ? Contract::rows : Contract::cols;
}

template <class Recipe>
auto& gemm_in(Recipe& recipe, OperandRole role) {
  if (role <= OperandRole::fprop_weight) return recipe.fprop;
  return role <= OperandRole::dgrad_weight ? recipe.dgrad : recipe.wgrad;
}

int64_t block_along_k(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile ? cast.block.cols : 1;
}

// Operands are zero-padded along K to this. [recipes.md §0]
int64_t padding_of(const GemmRecipe& gemm) {
  const int64_t blocks = std::lcm(block_along_k(gemm.left), block_along_k(gemm.right));
  return std::lcm(blocks, std::max<int64_t>(gemm.hadamard, 1));
}

}  // namespace

std::string_view name_of(OperandRole role) {
  constexpr std::array<std::string_view, kOperandRoles> kNames = {
      "fprop.input", "fprop.weight", "dgrad.grad", "dgrad.weight", "wgrad.grad", "wgrad.input"};
  return kNames[static_cast<size_t>(role)];
}

const GemmRecipe& gemm_of(const LinearRecipe& recipe, OperandRole role) {
  return gemm_in(recipe, role);
}
GemmRecipe& gemm_of(LinearRecipe& recipe, OperandRole role) { return gemm_in(recipe, role); }

const Operand& cast_of(const LinearRecipe& recipe, OperandRole role) {
  const GemmRecipe& gemm = gemm_of(recipe, role);
  return is_left(role) ? gemm.left : gemm.right;
}
Operand& cast_of(LinearRecipe& recipe, OperandRole role) {
  GemmRecipe& gemm = gemm_of(recipe, role);
  return is_left(role) ? gemm.left : gemm.right;
}

// What is not finite stays so into the gradient norm; a pass over the values to count nothing would
// cost 10 % of a step. Every other cast counts.
bool can_lose_values(const Operand& cast) {
  return !cast.is_fp32() && !(cast.is_unscaled() && cast.element->short_name == "bf16");
}

void scale_by_itself(Operand& cast) {
  if (cast.scaling != Scaling::delayed) return;
  cast.scaling = Scaling::current;
  cast.amax_history = Operand{}.amax_history;
  cast.amax_compute = Operand{}.amax_compute;
}

// Purposes 2..7 are the roles in order. [recipes.md §0]
Purpose purpose_of(OperandRole role) {
  return static_cast<Purpose>(static_cast<uint8_t>(Purpose::fprop_input) +
                              static_cast<uint8_t>(role));
}

// Group of a GEMM in purpose 11: dgrad 0, wgrad 1, fprop 2. [recipes.md §0]
uint32_t gemm_group(OperandRole role) {
  if (role <= OperandRole::fprop_weight) return 2;
  return role <= OperandRole::dgrad_weight ? 0 : 1;
}

OperandSpec operand_form(const LinearRecipe& recipe, OperandRole role) {
  const GemmRecipe& gemm = gemm_of(recipe, role);
  return {.cast = cast_of(recipe, role),
          .contract = contract_of(role),
          .side = is_left(role) ? Side::left : Side::right,
          .rows = 0,
          .k = 0,
          .k_multiple = padding_of(gemm),
          .hadamard = {.size = gemm.hadamard}};
}

}  // namespace ng
