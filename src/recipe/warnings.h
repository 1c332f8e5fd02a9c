// What a recipe may say but hardly means.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/settings.h"

namespace ng {

/// Sentences that begin with the key they are about, of the settings of one layer in one phase.
[[nodiscard]] std::vector<std::string> warnings_of(const RecipeSettings& settings);

/// The same of noise on the weights of a model: of a recipe with noise that no layer has, and of
/// layers whose two GEMMs would read different weights. `layers` are the model's linear layers.
[[nodiscard]] std::vector<std::string> noise_warnings(const Recipe& recipe,
                                                      std::span<const std::string> layers,
                                                      int64_t depth);

/// The same of phases that leave all layers of a model in the numbers of the phase before.
[[nodiscard]] std::vector<std::string> phase_warnings(const Recipe& recipe,
                                                      const ModelLayers& model);

}  // namespace ng
