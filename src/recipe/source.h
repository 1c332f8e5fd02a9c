// Finding recipe files and following `inherit`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml.h"

namespace ng {

/// Where a recipe comes from that is TOML of several lines, no file.
inline constexpr std::string_view kRecipeText = "recipe";

/// Keys of a recipe: a document, or a table of one. toml++ forgets line numbers when it copies, so
/// tables are shared, never copied.
struct RecipeDocument {
  std::shared_ptr<const toml::table> table;
  std::string prefix = {};  ///< what leads to it: "", or "recipe." in a run file
};

/// The documents a recipe is made of.
struct RecipeSource {
  std::string name;   ///< the key `name`, else the file's name without .toml, or what it changes
  std::string place;  ///< the file itself
  std::vector<RecipeDocument> documents;  ///< the furthest ancestor first, the recipe itself last
};

/// Path of a recipe given by path or name. Throws Error naming the nearest known recipe.
[[nodiscard]] std::string find_recipe(const std::string& name_or_path, const std::string& folder);

/// Parses `text` and loads what it inherits from. Throws Error where a parent is missing or
/// inherits from its own child.
[[nodiscard]] RecipeSource read_recipe_source(std::string_view text, const std::string& place);

/// Of keys that stand elsewhere, each document over those before it, all over the recipe that the
/// last `inherit` among them names.
[[nodiscard]] RecipeSource recipe_source_of(const std::vector<RecipeDocument>& documents);

/// The last document that says `key`.
[[nodiscard]] std::optional<TomlItem> last_item(const std::vector<RecipeDocument>& documents,
                                                std::string_view key);

/// The recipe's file that `inherit` names. Throws Error.
[[nodiscard]] std::string find_inherited(const TomlItem& inherit);

}  // namespace ng
