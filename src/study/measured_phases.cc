#include "study/measured_phases.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "model/weights.h"
#include "report/recipe_text.h"

namespace ng::study {

NumbersOfRecipes numbers_of(const std::vector<std::string>& labels,
                            const std::vector<std::string>& recipes, const ModelConfig& model) {
  NumbersOfRecipes numbers;
  for (size_t r = 0; r < recipes.size(); ++r) {
    const Recipe recipe = Recipe::load(recipes[r]);
    numbers.have_phases |= recipe.phase_starts().size() > 1;
    for (const RecipeMatch& match : recipe.matches(layers_of(model)))
      numbers.matches.push_back(fmt::format("{}: {}.", labels[r], report::match_text(match)));
  }
  return numbers;
}

MeasuredPhase phase_after(int64_t step, int64_t steps, const Recipe& recipe,
                          const std::string& chosen, bool others_have_phases) {
  const bool has_one = recipe.phase_starts().size() == 1;
  if (!chosen.empty() && !(has_one && others_have_phases))
    return measured_phase(recipe, {.word = chosen, .steps = [=] { return steps; }});
  return phase_of(recipe, recipe.phase_at(static_cast<double>(step) / static_cast<double>(steps)));
}

std::string phases_text(const std::vector<PhaseOfRecipe>& phases, const std::string& chosen) {
  std::vector<std::string> parts, others;
  for (const PhaseOfRecipe& of : phases)
    if (of.phase.count > 1)
      parts.push_back(fmt::format("{} at step {} in {}", of.recipe, of.step, of.phase.text()));
    else if (std::find(others.begin(), others.end(), of.recipe) == others.end())
      others.push_back(of.recipe);
  if (parts.empty()) return "";
  std::string text = fmt::format(
      "Recipes with phases are measured {}: {}.",
      chosen.empty() ? "in the phase that training has at the step, since no --phase was given"
                     : "where --phase " + chosen + " says",
      fmt::join(parts, "; "));
  if (!chosen.empty() && !others.empty())
    text += fmt::format(" In their only phase: {}.", fmt::join(others, ", "));
  return text;
}

}  // namespace ng::study
