// The keys of a recipe, one row each. [recipes.md §7]
#pragma once

#include "base/keys.h"
#include "recipe/settings.h"

namespace ng {

/// All keys of a recipe's base and of a phase.
[[nodiscard]] const Keys<RecipeSettings>& settings_keys();

/// May an override say this key?
[[nodiscard]] bool is_override_key(std::string_view path);

/// Settings whose values this version can read but not run: one sentence each, without place.
[[nodiscard]] std::vector<std::string> unsupported_settings(const RecipeSettings& settings);

}  // namespace ng
