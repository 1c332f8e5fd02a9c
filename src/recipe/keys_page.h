// The keys of recipes as a page of documentation: docs/recipe-keys.md.
#pragma once

#include <string>

namespace ng {

/// Markdown: keys of a recipe, then those of an operand, as their tables have them.
[[nodiscard]] std::string recipe_keys_page();

}  // namespace ng
