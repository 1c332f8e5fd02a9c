// What a recipe may say but hardly means.
#pragma once

#include <string>
#include <vector>

#include "recipe/settings.h"

namespace ng {

/// Sentences that begin with the key they are about, of the settings of one layer in one phase.
[[nodiscard]] std::vector<std::string> warnings_of(const RecipeSettings& settings);

}  // namespace ng
