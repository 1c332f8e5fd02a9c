#include "study/measured_phases.h"

#include <fmt/ranges.h>

namespace ng::study {

MeasuredPhase phase_after(int64_t step, int64_t steps, const Recipe& recipe,
                          const std::string& chosen) {
  if (!chosen.empty())
    return measured_phase(recipe, {.word = chosen, .steps = [=] { return steps; }});
  return phase_of(recipe, recipe.phase_at(static_cast<double>(step) / static_cast<double>(steps)));
}

std::string phases_text(const std::vector<PhaseOfRecipe>& phases, const std::string& chosen) {
  std::vector<std::string> parts;
  for (const PhaseOfRecipe& of : phases)
    if (of.phase.count > 1)
      parts.push_back(fmt::format("{} at step {} in {}", of.recipe, of.step, of.phase.text()));
  if (parts.empty()) return "";
  return fmt::format("Recipes with phases are measured {}: {}.",
                     chosen.empty()
                         ? "in the phase that training has at the step, since no --phase was given"
                         : "where --phase " + chosen + " says",
                     fmt::join(parts, "; "));
}

}  // namespace ng::study
