#include "recipe/operand_rules.h"

#include <optional>
#include <string>

#include "format/operand_conflict.h"
#include "format/operand_table.h"

namespace ng {

void check_rules(const Operand& operand, const TomlItem& item) {
  const bool bare = operand.scale == ScaleKind::none && operand.element->bits < 16;
  std::optional<OperandConflict> conflict;
  if (bare)
    conflict = {"scale", std::string(operand.element->short_name) + " elements without scale",
                "a scale; only fp32, bf16 and fp16 go without"};
  else
    conflict = conflict_of(operand);
  if (!conflict) return;
  const toml::table* table = item.value->as_table();
  const std::string prefix = item.path + ".";
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
