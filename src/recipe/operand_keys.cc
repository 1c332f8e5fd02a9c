#include "recipe/operand_keys.h"

#include <algorithm>

#include "base/error.h"
#include "recipe/operand_rules.h"

namespace ng {
namespace {

/// What overflows stays infinite in BF16, whose range is FP32's: another element in its place
/// starts by saturating, as all other formats do.
void leave_bf16(Operand& operand, const toml::table& table, const std::string& prefix) {
  const ElementFormat& bf16 = element_format("bf16");
  const auto item = find_item(table, "element", prefix);
  if (item && *operand.element == bf16 && !(*read_elements(*item).first == bf16))
    operand.overflow = Operand{}.overflow;
}

/// What eden leaves free above the scale of the largest block. [linear.md 5]
void take_scale_max(Operand& operand, Rounding before, const toml::table& table) {
  constexpr float kOfEden = 255.99f;
  if (table.contains("scale_max") || operand.rounding == before) return;
  if (operand.rounding == Rounding::eden) operand.scale_max = kOfEden;
  if (before == Rounding::eden && operand.scale_max == kOfEden)
    operand.scale_max = Operand{}.scale_max;
}

/// Of those keys, behind a comma each.
std::string toml_of(const std::vector<const OperandKey*>& keys, const Operand& operand) {
  std::string text;
  for (const OperandKey* key : keys) text += ", " + key->path + " = " + key->print(operand);
  return text;
}

}  // namespace

void read_operand(Operand& operand, const TomlItem& item) {
  change_operand(operand, item);
  check_operand(operand, item);
}

void change_operand(Operand& operand, const TomlItem& item) {
  const toml::table* table = item.value->as_table();
  if (table == nullptr) {
    operand = operand_of(read_format_name(item));
    return;
  }
  const std::string prefix = item.path + ".";
  check_known_keys(*table, rows_of(operand_keys()), prefix);
  const bool replaces = table->contains("format");
  if (!replaces) leave_bf16(operand, *table, prefix);
  const Rounding before = replaces ? Rounding::nearest : operand.rounding;
  read_keys(operand, *table, operand_keys(), prefix);
  take_scale_max(operand, before, *table);
  if (replaces) check_operand(operand, item);
  forget_unused(operand);
}

std::string print_operand(const Operand& operand) {
  const NearestFormat nearest = nearest_format(operand);
  if (nearest.differing.empty()) return toml_quote(nearest.name);
  return "{format = " + toml_quote(nearest.name) + toml_of(nearest.differing, operand) + "}";
}

std::string print_without_format(const Operand& operand) {
  const std::string text = toml_of(differences(operand, operand_of("fp32")), operand);
  constexpr size_t kComma = 2;  // each difference begins with ", "
  return fmt::format("{{{}}}", std::string_view(text).substr(std::min(kComma, text.size())));
}

std::string meaning_of(const OperandKey& key, const KeyRow& row) {
  return key.need.text.empty() ? row.doc : fmt::format("{}; only with {}", row.doc, key.need.text);
}

}  // namespace ng
