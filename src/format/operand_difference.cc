// In what casts differ, and which format of recipes one is nearest to.
#include "base/toml.h"
#include "format/operand_table.h"

namespace ng {
namespace {

/// What an operand prints for each key.
std::vector<std::string> printed(const Operand& operand) {
  std::vector<std::string> texts;
  for (const OperandKey& key : operand_keys()) texts.push_back(key.print(operand));
  return texts;
}

/// The same of each format of recipes.
const std::vector<std::vector<std::string>>& printed_formats() {
  static const std::vector<std::vector<std::string>> all = [] {
    std::vector<std::vector<std::string>> texts;
    for (const std::string_view name : operand_names()) texts.push_back(printed(operand_of(name)));
    return texts;
  }();
  return all;
}

/// `from` is printed as that.
std::vector<const OperandKey*> differences(const Operand& operand,
                                           const std::vector<std::string>& from) {
  std::vector<const OperandKey*> keys;
  for (size_t i = 0; i < from.size(); ++i)
    if (const OperandKey& key = operand_keys()[i];
        key.has_effect(operand) && key.print(operand) != from[i])
      keys.push_back(&key);
  return keys;
}

}  // namespace

std::vector<const OperandKey*> differences(const Operand& operand, const Operand& from) {
  return differences(operand, printed(from));
}

NearestFormat nearest_format(const Operand& operand) {
  NearestFormat nearest;
  for (size_t i = 0; i < operand_names().size(); ++i) {
    std::vector<const OperandKey*> keys = differences(operand, printed_formats()[i]);
    if (!nearest.name.empty() && keys.size() >= nearest.differing.size()) continue;
    nearest = {operand_names()[i], std::move(keys)};
  }
  return nearest;
}

void check_numbers(const Operand& operand) {
  static const std::vector<std::string> kDefaults = printed(operand_of("fp32"));
  Operand read;
  for (size_t i = 0; i < kDefaults.size(); ++i) {
    const OperandKey& key = operand_keys()[i];
    if (key.kind == OperandKeyUse::Kind::name || key.kind == OperandKeyUse::Kind::block ||
        !key.has_effect(operand))
      continue;
    // Every cast of the library comes by here: defaults are right without TOML.
    const std::string text = key.print(operand);
    if (text == kDefaults[i]) continue;
    const toml::table table = parse_toml(key.path + " = " + text, "");
    key.read(read, *find_item(table, key.path, ""));
  }
}

}  // namespace ng
