// Finding recipe files and following `inherit`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml.h"

namespace ng {

/// The documents a recipe is made of.
struct RecipeSource {
  std::string name;   ///< the key `name`, or the file's name without .toml
  std::string place;  ///< the file itself
  /// The furthest ancestor first, the recipe itself last. toml++ forgets line numbers when it
  /// copies, so documents are shared, never copied.
  std::vector<std::shared_ptr<const toml::table>> documents;
};

/// Path of a recipe given by path or name. Throws Error naming the nearest known recipe.
[[nodiscard]] std::string find_recipe(const std::string& name_or_path, const std::string& folder);

/// Parses `text` and loads what it inherits from. Throws Error where a parent is missing or
/// inherits from its own child.
[[nodiscard]] RecipeSource read_recipe_source(std::string_view text, const std::string& place);

}  // namespace ng
