#include "recipe/keys_page.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "recipe/cast_words.h"
#include "recipe/operand_keys.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

constexpr std::string_view kHead = R"(# The keys of recipes

Made from the program's own tables: `./narrowgauge recipes --keys` prints this page. A recipe is a
TOML file; [recipes/](../recipes) has the named ones, and `./narrowgauge recipes NAME` prints one
with every key it leaves at its default. A wrong key or value is refused with its line and what
would be right.

## A recipe

)";

constexpr std::string_view kOperandHead = R"(
## An operand

What a key above calls "a format name or a table of operand keys": `"mxfp4"`, or a table such as
`{ format = "mxfp4", rounding = "stochastic" }`. In `[[override]]` and `[[phase]]` a table without
`format` changes only what it names. The last columns say how `narrowgauge cast` and, for keywords
and properties, the C++ and Python libraries call the same.

)";

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

template <class Cells>
std::string row_of(const Cells& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string head_of(const std::vector<std::string_view>& titles) {
  return row_of(titles) + row_of(std::vector<std::string_view>(titles.size(), "---"));
}

/// What every format starts with; else what its name says.
std::string default_of(const OperandKey& key) {
  std::vector<std::string> defaults;
  for (const std::string_view name : operand_names())
    defaults.push_back(key.print(operand_of(name)));
  const bool all_alike = std::all_of(defaults.begin(), defaults.end(),
                                     [&](const auto& text) { return text == defaults.front(); });
  return all_alike ? code(defaults.front()) : "the format's";
}

std::string operand_row(const OperandKey& key) {
  std::string doc = key.doc;
  if (!key.need.text.empty()) doc += fmt::format("; only with {}", key.need.text);
  const std::string flag = key.flag.place > 0 ? flag_of(key.path) : "";
  return row_of(std::vector<std::string>{code(key.path), key.expected, default_of(key), doc,
                                         code(flag), code(key.field)});
}

}  // namespace

std::string recipe_keys_page() {
  std::string text(kHead);
  text += head_of({"key", "values", "default", "meaning"});
  const auto add = [&](const KeyRow& row, const std::string& value) {
    text += row_of(std::vector<std::string>{code(row.path), row.expected, code(value), row.doc});
  };
  for (const KeyRow& row : structure_rows()) add(row, "");
  const RecipeSettings defaults;
  for (const Key<RecipeSettings>& key : settings_keys()) add(key, key.print(defaults));
  text += kOperandHead;
  text += head_of({"key", "values", "default", "meaning", "`cast`", "libraries"});
  for (const OperandKey& key : operand_keys()) text += operand_row(key);
  return text;
}

}  // namespace ng
