#include "recipe/gemm_rules.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ng {
namespace {

/// eden corrects the scales of whole groups of the transform. [linear.md 5]
void check_groups(const Operand& operand, int hadamard, const std::string& gemm, const char* name,
                  const std::string& place) {
  if (operand.rounding != Rounding::eden) return;
  if (hadamard > 0 && hadamard % operand.block.cols == 0) return;
  throw Error({place, fmt::format("{}.{}.rounding", gemm, name),
               fmt::format("\"eden\" in blocks of {} beside {}.hadamard = {}",
                           text_of(operand.block), gemm, hadamard),
               "a transform of whole blocks"});
}

/// Tiles multiply values of BF16. [backend/ref/gemm.h]
void check_sum(const Operand& operand, SumOrder sum, const std::string& gemm, const char* name,
               const std::string& place) {
  if (sum == SumOrder::chain || operand.factors_are_bf16()) return;
  throw Error({place, gemm + ".sum",
               fmt::format("\"{}\" beside {}.{} = {}, which BF16 does not hold exactly",
                           name_of(sum), gemm, name, describe(operand)),
               "sum = \"chain\", or operands of at most 8 significant bits with the scales of "
               "their blocks"});
}

}  // namespace

void check_gemms(const RecipeSettings& settings, const std::string& place) {
  const LinearRecipe& linear = settings.linear;
  const auto check = [&](const GemmRecipe& gemm, const std::string& path, const char* left,
                         const char* right) {
    check_groups(gemm.left, gemm.hadamard, path, left, place);
    check_groups(gemm.right, gemm.hadamard, path, right, place);
    check_sum(gemm.left, gemm.sum, path, left, place);
    check_sum(gemm.right, gemm.sum, path, right, place);
  };
  check(linear.fprop, "linear.fprop", "input", "weight");
  check(linear.dgrad, "linear.dgrad", "grad", "weight");
  check(linear.wgrad, "linear.wgrad", "grad", "input");
}

}  // namespace ng
