// In what casts differ, and which format of recipes one is nearest to.
#include <cstdlib>
#include <tuple>
#include <utility>

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
struct PrintedFormat {
  std::string_view name;
  const ElementFormat* element;
  std::vector<std::string> texts;
};
const std::vector<PrintedFormat>& printed_formats() {
  static const std::vector<PrintedFormat> all = [] {
    std::vector<PrintedFormat> formats;
    for (const std::string_view name : operand_names()) {
      const Operand operand = operand_of(name);
      formats.push_back({name, operand.element, printed(operand)});
    }
    return formats;
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
  std::tuple<size_t, bool, int> least;
  for (const PrintedFormat& format : printed_formats()) {
    std::vector<const OperandKey*> keys = differences(operand, format.texts);
    const bool is_other_kind = operand.element->kind != format.element->kind;
    const std::tuple distance{keys.size() + (is_other_kind ? 1 : 0), is_other_kind,
                              std::abs(operand.element->bits - format.element->bits)};
    if (!nearest.name.empty() && distance >= least) continue;
    nearest = {format.name, std::move(keys)};
    least = distance;
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
