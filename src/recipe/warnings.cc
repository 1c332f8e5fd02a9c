#include "recipe/warnings.h"

#include <fmt/format.h>

#include "format/element_list.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

using Sentences = std::vector<std::string>;

/// Rule (d). [recipes.md §7; §3.2: it diverged]
void warn_of_forward(const GemmRecipe& fprop, Sentences& warnings) {
  const std::pair<const Operand*, const char*> operands[] = {{&fprop.left, "linear.fprop.input"},
                                                             {&fprop.right, "linear.fprop.weight"}};
  for (const auto& [operand, key] : operands)
    if (operand->rounding == Rounding::stochastic)
      warnings.push_back(
          fmt::format("{}: stochastic rounding on a forward operand adds noise that "
                      "hurts training: \"nearest\" is better there",
                      key));
}

/// [rivals.md §2.2: for one draw, relative bias .027 on normal values]
void warn_of_biased_choice(const LinearRecipe& linear, Sentences& warnings) {
  const std::pair<const Operand*, const char*> operands[] = {
      {&linear.fprop.left, "fprop.input"}, {&linear.fprop.right, "fprop.weight"},
      {&linear.dgrad.left, "dgrad.grad"},  {&linear.dgrad.right, "dgrad.weight"},
      {&linear.wgrad.left, "wgrad.grad"},  {&linear.wgrad.right, "wgrad.input"}};
  for (const auto& [operand, key] : operands) {
    if (choices_of(*operand) < 2 || operand->rounding != Rounding::stochastic) continue;
    const bool is_fit = operand->other == nullptr;
    warnings.push_back(fmt::format(
        "linear.{}.{}: of a list a block takes the {} that stochastic rounding happened to "
        "suit, which biases the mean: one {} keeps it",
        key, is_fit ? "fit" : "element", is_fit ? "fit" : "element", is_fit ? "fit" : "element"));
  }
}

/// Its proof draws them anew. [rivals.md §2.3]
void warn_of_lasting_signs(const LinearRecipe& linear, Sentences& warnings) {
  const std::pair<const GemmRecipe*, const char*> gemms[] = {
      {&linear.fprop, "fprop"}, {&linear.dgrad, "dgrad"}, {&linear.wgrad, "wgrad"}};
  for (const auto& [gemm, key] : gemms) {
    const bool eden =
        gemm->left.rounding == Rounding::eden || gemm->right.rounding == Rounding::eden;
    if (eden && gemm->hadamard_signs != HadamardSigns::random)
      warnings.push_back(fmt::format(
          "linear.{}.hadamard_signs: eden is unbiased over signs that are drawn in every step: "
          "\"random\"",
          key));
  }
}

bool has_format_of(const Operand& operand, const Operand& storage) {
  return !storage.is_unscaled() && *operand.element == *storage.element &&
         operand.block == storage.block;
}

/// Rule (g) holds where stored blocks lie as the GEMM's do; elsewhere values that were rounded when
/// they were stored are rounded once more.
void warn_of_rounding_twice(const RecipeSettings& settings, Sentences& warnings) {
  const Operand& storage = settings.weights.storage;
  const GemmRecipe &fprop = settings.linear.fprop, &dgrad = settings.linear.dgrad;
  const Block& block = storage.block;
  const bool is_square = block.kind == Block::Kind::tensor ||
                         (block.kind == Block::Kind::tile && block.rows == block.cols);
  if (has_format_of(dgrad.right, storage) && !is_square)
    warnings.push_back(fmt::format(
        "linear.dgrad.weight: what is stored as {} is rounded once more, because dgrad sums over "
        "rows of the weight: square blocks serve both GEMMs",
        describe(storage)));
  const std::pair<const GemmRecipe*, const char*> gemms[] = {{&fprop, "linear.fprop"},
                                                             {&dgrad, "linear.dgrad"}};
  for (const auto& [gemm, key] : gemms)
    if (gemm->hadamard > 0 && has_format_of(gemm->right, storage))
      warnings.push_back(
          fmt::format("{}.hadamard: what is stored as {} is transformed and rounded once more", key,
                      describe(storage)));
}

void warn_of_update(const RecipeSettings& settings, Sentences& warnings) {
  const WeightStorage defaults, &w = settings.weights;
  const auto warn_of_idle = [&](const char* key, bool is_default, UpdateRule rule,
                                const char* name) {
    if (!is_default && w.update != rule)
      warnings.push_back(
          fmt::format("weights.{}: has no effect without update = \"{}\"", key, name));
  };
  warn_of_idle("residual_bits", w.residual_bits == defaults.residual_bits, UpdateRule::residual,
               "residual");
  warn_of_idle("rtol", w.rtol == defaults.rtol, UpdateRule::precision_aware, "precision_aware");
  warn_of_idle("max_iters", w.max_iters == defaults.max_iters, UpdateRule::precision_aware,
               "precision_aware");
  warn_of_idle("search", w.search == defaults.search, UpdateRule::precision_aware,
               "precision_aware");
  const bool saturates = w.storage.scale == ScaleKind::e8m0 &&
                         w.storage.scale_rule == ScaleRule::floor &&
                         w.storage.element->kind == ElementKind::floating;
  if (w.update == UpdateRule::residual && saturates)
    warnings.push_back(
        "weights.storage.scale_rule: \"floor\" saturates the largest weights of a block, which a "
        "residual does not hold: \"rceil\" keeps them");
}

void warn_of_optimizer(const OptimizerRecipe& optimizer, Sentences& warnings) {
  if (optimizer.kind == OptimizerRecipe::Kind::adam_mini && !optimizer.moment2.is_fp32())
    warnings.push_back(
        "optimizer.moment2: adam_mini keeps one for each block of rows, in FP32: this holds for "
        "none of its matrices");
}

void warn_of_gradient(const GradientRecipe& gradient, Sentences& warnings) {
  const GradientRecipe defaults;
  const std::pair<const char*, bool> keys[] = {
      {"start", gradient.auto_scale_start == defaults.auto_scale_start},
      {"delta", gradient.auto_scale_delta == defaults.auto_scale_delta},
      {"growth_after", gradient.auto_scale_growth_after == defaults.auto_scale_growth_after}};
  for (const auto& [key, is_default] : keys)
    if (!is_default && !gradient.auto_scale)
      warnings.push_back(
          fmt::format("gradient.auto_scale_{}: has no effect without auto_scale = true", key));
  if (gradient.auto_scale && gradient.auto_scale_start != defaults.auto_scale_start &&
      gradient.reduce != GradientRecipe::Reduce::wire)
    warnings.emplace_back(
        "gradient.auto_scale_start: has no effect without reduce = \"wire\": mu begins with 1");
}

}  // namespace

std::vector<std::string> noise_warnings(const Recipe& recipe, std::span<const std::string> layers,
                                        int64_t depth) {
  Sentences warnings;
  bool is_somewhere = false;
  for (const std::string& name : layers) {
    const LayerPlace place{.name = name, .block = layers::place_of(name).block, .depth = depth};
    const LayerRecipe layer = recipe.layer(place, 0);
    if (layer.weight_noise.kind == NoiseKind::none) continue;
    is_somewhere = true;
    const Operand& dgrad = layer.linear.dgrad.right;
    const bool is_taken = takes_stored({.cast = dgrad,
                                        .contract = Contract::rows,
                                        .hadamard = {.size = layer.linear.dgrad.hadamard}},
                                       layer.weight_noise.cast);
    if (warnings.empty() && !dgrad.is_unscaled() && !is_taken)
      warnings.push_back(fmt::format(
          "linear.dgrad.weight: {} rounds the noisy weight of {} once more, so that the backward "
          "pass is not that of the forward pass: \"bf16\" or \"fp32\" beside noise",
          describe(dgrad), name));
  }
  if (!is_somewhere && recipe.settings(0).weight_noise.kind != NoiseKind::none)
    warnings.emplace_back(
        "weight_noise.layers: match no layer of this model, so nothing has noise");
  return warnings;
}

std::vector<std::string> phase_warnings(const Recipe& recipe, const ModelLayers& model) {
  Sentences warnings;
  int phase = 0;
  for (const RecipeMatch& match : recipe.matches(model)) {
    if (!match.is_phase()) continue;
    ++phase;
    if (match.layers.empty() && recipe.compute(phase) == recipe.compute(phase - 1))
      warnings.push_back(
          fmt::format("{}: changes nothing: from {:g} % of training on all layers stay in the "
                      "numbers of the phase before",
                      match.key, 100 * match.start));
  }
  return warnings;
}

std::vector<std::string> warnings_of(const RecipeSettings& settings) {
  Sentences warnings;
  warn_of_forward(settings.linear.fprop, warnings);
  warn_of_biased_choice(settings.linear, warnings);
  warn_of_lasting_signs(settings.linear, warnings);
  warn_of_rounding_twice(settings, warnings);
  warn_of_update(settings, warnings);
  warn_of_optimizer(settings.optimizer, warnings);
  warn_of_gradient(settings.gradient, warnings);
  return warnings;
}

}  // namespace ng
