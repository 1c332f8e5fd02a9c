// Key by key, what differs between two recipes.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace ng {

/// Values are TOML on one line; "none" where that recipe says nothing of the key.
struct RecipeChange {
  std::string key, before, now;
};

/// By Recipe::values(), in their order.
[[nodiscard]] std::vector<RecipeChange> changes(const Recipe& before, const Recipe& now);

/// "optimizer.kind: "adamw" -> "sgd""
[[nodiscard]] std::string text_of(const RecipeChange& change);

}  // namespace ng
