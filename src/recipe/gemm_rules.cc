#include "recipe/gemm_rules.h"

#include <fmt/format.h>

#include "base/error.h"
#include "recipe/stored_rules.h"

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

/// The factor of a gradient and the gradient itself lie in one basis. [linear.md 6]
void check_gradient(const LinearRecipe& linear, const std::string& place) {
  const auto check = [&](const Operand& read, const char* name, const Operand& backward,
                         const char* other) {
    if (read.gradient == RoundingGradient::straight || linear.fprop.hadamard == 0 ||
        backward.from == From::fprop)
      return;
    throw Error({place, fmt::format("linear.fprop.{}.gradient", name),
                 fmt::format("\"{}\" beside linear.fprop.hadamard = {}, and linear.{} is made of "
                             "the original",
                             read.gradient == RoundingGradient::clip ? "clip" : "dge",
                             linear.fprop.hadamard, other),
                 fmt::format("linear.{}.from = \"fprop\"", other)});
  };
  check(linear.fprop.left, "input", linear.dgrad.right, "dgrad.weight");
  check(linear.fprop.right, "weight", linear.wgrad.right, "wgrad.input");
}

/// What the forward GEMM read of x lacks the mean, and which part of its gradient passes a
/// rounding nobody says. [linear.md 3, 8]
void check_center(const LinearRecipe& linear, const std::string& place) {
  if (linear.fprop.center == Center::none) return;
  const auto refuse = [&](const char* key, const char* value, const char* other) {
    throw Error({place, fmt::format("linear.{}", key),
                 fmt::format("\"{}\" beside linear.fprop.center", value),
                 fmt::format("\"{}\", or linear.fprop.center = \"none\"", other)});
  };
  if (linear.dgrad.right.from == From::fprop) refuse("dgrad.weight.from", "fprop", "original");
  if (linear.wgrad.right.from == From::fprop) refuse("wgrad.input.from", "fprop", "original");
  if (linear.fprop.left.gradient != RoundingGradient::straight)
    refuse("fprop.input.gradient",
           linear.fprop.left.gradient == RoundingGradient::clip ? "clip" : "dge", "straight");
}

/// A result is a tensor that is stored, and no GEMM undoes how it is scaled.
void check_output(const OutputNumbers& output, const std::string& gemm, const std::string& place) {
  if (output.kind == OutputKind::narrow) check_stored_cast(output.narrow, gemm + ".output", place);
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
  check_gradient(linear, place);
  check_center(linear, place);
  check_output(settings.fprop_output, "linear.fprop", place);
  check_output(settings.dgrad_output, "linear.dgrad", place);
}

void check_head(const RecipeSettings& settings, const std::string& place) {
  const auto check = [&](const OutputNumbers& output, const char* gemm) {
    if (output.kind == OutputKind::narrow)
      throw Error({place, fmt::format("linear.{}.output", gemm),
                   fmt::format("{} of the head, which works in pieces", describe(output.narrow)),
                   "\"compute\", \"bf16\" or \"fp32\""});
  };
  check(settings.fprop_output, "fprop");
  check(settings.dgrad_output, "dgrad");
}

}  // namespace ng
