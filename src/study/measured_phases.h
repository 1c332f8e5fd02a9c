// In which phases of recipes a study of a run measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/report.h"

namespace ng::study {

/// That which `chosen` says as --phase does; where it is empty, the one that training has when
/// `step` of `steps` are done.
[[nodiscard]] MeasuredPhase phase_after(int64_t step, int64_t steps, const Recipe& recipe,
                                        const std::string& chosen);

/// A sentence on recipes that have several phases; empty where none has.
[[nodiscard]] std::string phases_text(const std::vector<PhaseOfRecipe>& phases,
                                      const std::string& chosen);

}  // namespace ng::study
