#include "recipe/key_facts.h"

#include <optional>

#include "recipe/operand_keys.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

/// The operand that a default names; none where it names no format.
std::optional<Operand> named_operand(const std::string& standard) {
  for (const std::string_view name : operand_names())
    if (standard == toml_quote(name)) return operand_of(name);
  return {};
}

}  // namespace

void add_key_facts(std::vector<KeyFacts>& all, const KeyFacts& facts) {
  all.push_back(facts);
  if (facts.type != kOperandType) return;
  const std::optional<Operand> operand = named_operand(facts.standard);
  for (const OperandKey& key : operand_keys()) {
    KeyFacts below = facts_of(key, facts.of, operand ? key.print(*operand) : "");
    below.key = facts.key + "." + key.path;
    below.meaning = meaning_of(key);
    all.push_back(std::move(below));
  }
}

std::vector<KeyFacts> recipe_key_facts() {
  constexpr const char* kOf = "recipe";
  std::vector<KeyFacts> all;
  for (const KeyRow& row : structure_rows()) all.push_back(facts_of(row, kOf, ""));
  const RecipeSettings defaults;
  for (const Key<RecipeSettings>& key : settings_keys())
    add_key_facts(all, facts_of(key, kOf, key.print(defaults)));
  return all;
}

}  // namespace ng
