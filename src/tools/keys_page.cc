#include "tools/keys_page.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "recipe/cast_words.h"
#include "recipe/key_facts.h"
#include "recipe/operand_keys.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"
#include "train/run_config.h"

namespace ng {
namespace {

constexpr std::string_view kHead = R"(# The keys of run files and recipes

Made from the tables by which the program reads these files: `./narrowgauge keys --markdown` prints
this page, `./narrowgauge keys KEY` what it says of one key, and `--json` all of it as data. A wrong
key or value is refused with its line and what would be right.

A value is a `string`, a `number`, an `integer` or a `boolean` as TOML has them; `strings` are one
string or a list of them; `numbers` and `integers` are lists; `tables` is a list of tables; an
`operand` is a format's name (`"mxfp4"`) or a table of [the keys below](#an-operand).

## A run file

What `train`, `compare` and `supervise` read. `--set KEY=VALUE` says the same on the command line.
Defaults of `[model]` are those where neither `preset` nor `init` is named.

)";

constexpr std::string_view kRecipeHead = R"(
## A recipe

A TOML file; [recipes/](../recipes) has the named ones, [recipes.md](recipes.md) says how to write
one, and `./narrowgauge recipes NAME` prints one with every key it leaves at its default.

)";

constexpr std::string_view kOperandHead = R"(
## An operand

`"mxfp4"`, or a table such as `{ format = "mxfp4", rounding = "stochastic" }`. A table without
`format` changes only what it names. `keys` has each of these keys once for each operand, by its
full path: `linear.dgrad.grad.block`. The last columns say how `narrowgauge cast` and, for keywords
and properties, the C++ and Python libraries call the same.

)";

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

/// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::vector<std::string> escaped;
  for (const std::string& text : cells) escaped.push_back(cell(text));
  return fmt::format("| {} |\n", fmt::join(escaped, " | "));
}

std::vector<std::string> titles() {
  return {"key", "type", "values", "default", "meaning", "equation", "since", "example"};
}

std::string head_of(const std::vector<std::string>& names) {
  return row_of(names) + row_of(std::vector<std::string>(names.size(), "---"));
}

std::vector<std::string> cells_of(const KeyFacts& facts) {
  return {code(facts.key), facts.type,     facts.values, code(facts.standard),
          facts.meaning,   facts.equation, facts.since,  code(facts.example)};
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
  KeyFacts facts = facts_of(key, "", key.print(operand_of("mxfp4")));
  facts.meaning = meaning_of(key, key);
  std::vector<std::string> cells = cells_of(facts);
  cells[3] = default_of(key);
  cells.push_back(code(key.flag.place > 0 ? flag_of(key.path) : ""));
  cells.push_back(code(key.field));
  return row_of(cells);
}

std::string table_of(const std::vector<KeyFacts>& all) {
  std::string text = head_of(titles());
  for (const KeyFacts& facts : without_operands_keys(all)) text += row_of(cells_of(facts));
  return text;
}

}  // namespace

std::vector<KeyFacts> all_key_facts() {
  std::vector<KeyFacts> all = run_key_facts();
  for (KeyFacts& facts : recipe_key_facts()) all.push_back(std::move(facts));
  return all;
}

std::vector<KeyFacts> without_operands_keys(const std::vector<KeyFacts>& all) {
  std::vector<KeyFacts> some;
  std::string operand;  // whose keys are below
  for (const KeyFacts& facts : all) {
    if (!operand.empty() && facts.key.starts_with(operand)) continue;
    some.push_back(facts);
    operand = facts.type == kOperandType ? facts.key + "." : "";
  }
  return some;
}

std::string keys_page() {
  std::string text(kHead);
  text += table_of(run_key_facts());
  text += kRecipeHead;
  text += table_of(recipe_key_facts());
  text += kOperandHead;
  std::vector<std::string> names = titles();
  names.insert(names.end(), {"`cast`", "libraries"});
  text += head_of(names);
  for (const OperandKey& key : operand_keys()) text += operand_row(key);
  return text;
}

}  // namespace ng
