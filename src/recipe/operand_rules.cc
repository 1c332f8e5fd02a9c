#include "recipe/operand_rules.h"

#include <optional>
#include <string>

#include "format/operand_conflict.h"

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
  const auto check = [&](std::string_view key, bool used, std::string_view needs) {
    if (const auto at = find_item(*table, key, item.path + "."); at && !used)
      errors.push_back(Error(
          {at->place, at->path, "has no effect here", "together with " + std::string(needs)}));
  };
  for (const std::string_view key : {"amax_history", "amax_compute", "margin"})
    check(key, operand.scaling == Scaling::delayed, "scaling = \"delayed\"");
  check("sr_bits", operand.rounding == Rounding::stochastic, "rounding = \"stochastic\"");
  return errors;
}

void check_operand(const Operand& operand, const TomlItem& item) {
  check_rules(operand, item);
  for (const Error& error : unused_keys(operand, item)) throw Error(error);
}

}  // namespace ng
