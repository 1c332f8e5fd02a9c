#include "recipe/operand_rules.h"

#include <fmt/format.h>

#include <vector>

#include "recipe/operand_keys.h"
#include "recipe/operand_names.h"

namespace ng {
namespace {

/// One thing that keys may not say together.
struct Rule {
  std::string_view key;
  bool broken;
  std::string problem;
  std::string_view remedy;
};

/// Which elements a scale can stand beside. [formats.md §3.1, §4, §5, §6]
std::vector<Rule> element_rules(const Operand& o) {
  const std::string name(o.element->short_name);
  const std::string scale = toml_quote(kScaleKinds.name_of(o.scale));
  const bool wide = o.element->bits >= 16;
  const bool full_range = o.element->exponent_bits == 8;  // a power of two adds nothing to it
  const bool none = o.scale == ScaleKind::none, e8m0 = o.scale == ScaleKind::e8m0;
  const bool e4m3 = o.scale == ScaleKind::e4m3;
  const std::string scale_for_name = fmt::format("{} for {} elements", scale, name);
  return {
      {"scale", none && !wide, name + " elements without scale",
       "a scale; only fp32, bf16 and fp16 go without"},
      {"scale", name == "fp32" && !none, "a scale for fp32 elements",
       "\"none\": fp32 is never rounded"},
      {"scale", name == "mxint8" && !e8m0, scale_for_name, "\"e8m0\""},
      {"scale", e8m0 && (wide || full_range || name == "int8" || name == "int4"), scale_for_name,
       "\"fp32\" or \"pow2\""},
      {"scale", e4m3 && name != "e2m1", scale_for_name, "element = \"e2m1\", or another scale"},
      {"rounding", name == "fp32" && o.rounding == Rounding::stochastic,
       "\"stochastic\" for fp32 elements", "\"nearest\": fp32 is never rounded"},
      {"overflow", o.overflow == Overflow::special && o.element->specials == Specials::none,
       fmt::format("\"special\" for {} elements, which have neither infinity nor NaN", name),
       "\"saturate\""},
  };
}

/// What a kind of scale asks of the other keys.
std::vector<Rule> scale_rules(const Operand& o) {
  const std::string scale = toml_quote(kScaleKinds.name_of(o.scale));
  const std::string block = print_block(o.block);
  const bool none = o.scale == ScaleKind::none, e8m0 = o.scale == ScaleKind::e8m0;
  const bool e4m3 = o.scale == ScaleKind::e4m3;
  const bool tile = o.block.kind == Block::Kind::tile;
  const bool tensor = o.block.kind == Block::Kind::tensor;
  const bool can_be_delayed =
      tensor && !none && !e8m0 && !e4m3 && o.element->kind == ElementKind::floating;
  const bool e4m3_rule = o.scale_rule == ScaleRule::nearest || o.scale_rule == ScaleRule::up;
  bool rule_fits = o.scale_rule == ScaleRule::floor;
  std::string_view rules = "no scale_rule: only e8m0 and e4m3 scales are rounded by one";
  if (e4m3) {
    rule_fits = e4m3_rule;
    rules = "\"nearest\" or \"up\"";
  } else if (e8m0) {
    rule_fits = !e4m3_rule;
    rules = "\"floor\", \"rceil\", \"ceil\", \"even\" or \"mse\"";
  }
  return {
      {"block", none && !tensor, block + " without scale", "\"tensor\", or a scale"},
      {"block", (e8m0 || e4m3) && !tile, fmt::format("{} with {} scales", block, scale), "[r, c]"},
      {"tensor_scale", o.tensor_scale != ScaleKind::none && !e4m3,
       fmt::format("a tensor scale above {} scales", scale), "\"none\", or scale = \"e4m3\""},
      {"scaling", o.scaling == Scaling::delayed && !can_be_delayed,
       fmt::format("\"delayed\" for {} with {} scales of {}", o.element->short_name, scale, block),
       "floating elements, scale \"fp32\" or \"pow2\", block \"tensor\""},
      {"scale_rule", !rule_fits,
       fmt::format("\"{}\" for {} scales", kScaleRules.name_of(o.scale_rule), scale), rules},
  };
}

void check_each(const std::vector<Rule>& rules, const toml::table* table, const TomlItem& item) {
  const std::string prefix = item.path + ".";
  for (const Rule& rule : rules) {
    if (!rule.broken) continue;
    std::optional<TomlItem> at;
    if (table != nullptr) at = find_item(*table, rule.key, prefix);
    if (!at) at = TomlItem{nullptr, prefix + std::string(rule.key), item.place};
    at->refuse(rule.problem, std::string(rule.remedy));
  }
}

}  // namespace

void check_rules(const Operand& operand, const TomlItem& item) {
  const toml::table* table = item.value->as_table();
  check_each(element_rules(operand), table, item);
  check_each(scale_rules(operand), table, item);
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
