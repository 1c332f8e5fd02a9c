// In which phases of recipes a study of a run measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "study/report.h"

namespace ng::study {

/// What recipes say before anything is measured.
struct NumbersOfRecipes {
  bool have_phases = false;          ///< one of them has several
  std::vector<std::string> matches;  ///< the layers that each of their tables means, in sentences
};
[[nodiscard]] NumbersOfRecipes numbers_of(const std::vector<std::string>& labels,
                                          const std::vector<std::string>& recipes,
                                          const ModelConfig& model);

/// That which `chosen` says as --phase does; where it is empty, the one that training has when
/// `step` of `steps` are done. A recipe of one phase is measured in it whatever is chosen where
/// `others_have_phases`. Throws Error where the recipe has no such phase.
[[nodiscard]] MeasuredPhase phase_after(int64_t step, int64_t steps, const Recipe& recipe,
                                        const std::string& chosen, bool others_have_phases);

/// A sentence on recipes that have several phases, and where one is chosen also on those that have
/// one; empty where none has several.
[[nodiscard]] std::string phases_text(const std::vector<PhaseOfRecipe>& phases,
                                      const std::string& chosen);

}  // namespace ng::study
