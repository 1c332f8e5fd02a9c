#include "recipe/operand_rules.h"

#include <algorithm>
#include <optional>
#include <string>

#include "format/operand_conflict.h"
#include "format/operand_table.h"

namespace ng {

namespace {

bool is_state(std::string_view operand) {
  return std::ranges::any_of(kStateOperands,
                             [&](std::string_view state) { return operand.ends_with(state); });
}

/// Keys that other operands have.
void refuse_elsewhere(const toml::table& table, const std::string& operand,
                      const std::string& prefix) {
  for (const OperandKey& key : operand_keys())
    if (const auto at = find_item(table, key.path, prefix); at && !key.is_of(operand))
      at->refuse("not a key of this operand", fmt::format("in {}", one_of(key.places)));
}

}  // namespace

void check_rules(const Operand& operand, const TomlItem& item) {
  const ElementFormat& element = *operand.element;
  const bool has_range = element.kind == ElementKind::floating && element.bits >= 8;
  std::optional<OperandConflict> conflict;
  if (operand.is_unscaled() && !has_range)
    conflict = {"scale", std::string(element.short_name) + " elements without scale",
                "a scale; only floating elements of 8 and more bits go without"};
  else
    conflict = conflict_of(operand, is_state(item.path));
  const toml::table* table = item.value->as_table();
  const std::string prefix = item.path + ".";
  if (table != nullptr) refuse_elsewhere(*table, item.path, prefix);
  if (!conflict) return;
  std::optional<TomlItem> at;
  if (table != nullptr) at = find_item(*table, conflict->key, prefix);
  if (!at) at = TomlItem{nullptr, prefix + std::string(conflict->key), item.place};
  at->refuse(conflict->problem, conflict->remedy);
}

std::vector<Error> unused_keys(const Operand& operand, const TomlItem& item) {
  std::vector<Error> errors;
  const toml::table* table = item.value->as_table();
  if (table == nullptr) return errors;
  for (const OperandKey& key : operand_keys())
    if (const auto at = find_item(*table, key.path, item.path + ".");
        at && !key.has_effect(operand))
      errors.push_back(Error({at->place, at->path, "has no effect here",
                              "together with " + std::string(key.need.text)}));
  return errors;
}

void check_operand(const Operand& operand, const TomlItem& item) {
  check_rules(operand, item);
  for (const Error& error : unused_keys(operand, item)) throw Error(error);
}

}  // namespace ng
