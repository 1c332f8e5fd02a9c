#include "recipe/key_facts.h"

#include <algorithm>
#include <optional>

#include "recipe/operand_keys.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

constexpr std::string_view kStored[] = {
    "weights.storage",      "dpo.reference_storage", "optimizer.moment1",  "optimizer.moment2",
    "gradient.communicate", "weight_noise.cast",     "saved.norm",         "saved.activation",
    "saved.attention",      "linear.fprop.output",   "linear.dgrad.output"};
/// What stored tensors have no choice of, by check_stored_cast(); weights.update says how weights
/// are rounded, and what is saved for backward is rounded to nearest.
constexpr std::string_view kOfOperandsOnly[] = {
    "scaling", "amax_history", "amax_compute", "margin",     "scale_of",
    "fit",     "select",       "scale_max",    "subnormals", "prescale"};
constexpr std::string_view kOfRounding[] = {"rounding", "sr_bits"};

bool is_of_use(std::string_view operand, std::string_view key) {
  if (std::ranges::find(kStored, operand) == std::end(kStored)) return true;
  if (std::ranges::find(kOfOperandsOnly, key) != std::end(kOfOperandsOnly)) return false;
  const bool is_rounded_otherwise =
      operand.find("storage") != operand.npos || operand.starts_with("saved.");
  return !is_rounded_otherwise || std::ranges::find(kOfRounding, key) == std::end(kOfRounding);
}

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
    if (!key.is_of(facts.key) || !is_of_use(facts.key, key.path)) continue;
    const KeyRow& row = key.row_in(facts.key);
    KeyFacts below = facts_of(row, facts.of, operand ? key.print(*operand) : "", facts.key + ".");
    below.meaning = meaning_of(key, row);
    below.line.insert(0, facts.line, 0, facts.line.find('\n') + 1);  // what the operand's needs
    all.push_back(std::move(below));
  }
}

std::vector<KeyFacts> recipe_key_facts() {
  constexpr const char* kOf = "recipe";
  std::vector<KeyFacts> all;
  for (const KeyRow& row : structure_rows())
    all.push_back(facts_of(row, kOf, "", "", row.path.find('.') != row.path.npos));
  const RecipeSettings defaults;
  for (const Key<RecipeSettings>& key : settings_keys())
    add_key_facts(all, facts_of(key, kOf, key.print(defaults)));
  return all;
}

}  // namespace ng
