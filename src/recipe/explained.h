// A recipe with what each of its lines means.
#pragma once

#include <string>

#include "recipe/recipe.h"

namespace ng {

/// Recipe::resolved_toml() with a comment behind each line that says a key: its meaning by the
/// table of keys. It is read as the same recipe.
[[nodiscard]] std::string explained_toml(const Recipe& recipe);

}  // namespace ng
