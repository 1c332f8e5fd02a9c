// What a recipe says of weights and states that persist must be possible, and without
// contradiction.
#pragma once

#include <string>

#include "recipe/settings.h"

namespace ng {

/// Throws Error, naming the key, where storage, master, update rule and optimizer contradict one
/// another, or a cast cannot be that of a tensor that persists. [recipes.md §7, rule e]
void check_stored(const RecipeSettings& settings, const std::string& place);

/// Throws Error, naming a key below `key`, where a cast cannot be that of a tensor that persists.
void check_stored_cast(const Operand& cast, const std::string& key, const std::string& place);

}  // namespace ng
