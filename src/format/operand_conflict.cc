#include "format/operand_conflict.h"

#include <fmt/format.h>

#include <vector>

#include "format/codec.h"
#include "format/operand_values.h"

namespace ng {
namespace {

struct Rule {
  std::string_view key;
  bool broken;
  std::string problem;
  std::string_view remedy;
};

std::string quoted(std::string_view word) { return fmt::format("\"{}\"", word); }

/// As recipes write it.
std::string block_text(const Block& block) {
  if (block.kind != Block::Kind::tile) return quoted(text_of(block));
  return fmt::format("[{}, {}]", block.rows, block.cols);
}

/// Which elements a scale can stand beside.
std::vector<Rule> element_rules(const Operand& o) {
  const ElementFormat& element = *o.element;
  const std::string name(element.short_name);
  const bool none = o.scale == ScaleKind::none, e8m0 = o.scale == ScaleKind::e8m0;
  const bool e4m3 = o.scale == ScaleKind::e4m3;
  const bool wide = element.bits >= 16;
  const bool full_range = element.exponent_bits == 8;  // a power of two adds nothing to it
  const bool integer = element.kind == ElementKind::integer && element.mantissa_bits == 0;
  const std::string scale_for_name =
      fmt::format("{} for {} elements", quoted(name_of(o.scale)), name);
  return {
      {"scale", name == "fp32" && !none, "a scale for fp32 elements",
       "\"none\": fp32 is never rounded"},
      {"scale", name == "mxint8" && !none && !e8m0, scale_for_name, "\"e8m0\""},
      {"scale", e8m0 && (wide || full_range || integer), scale_for_name, "\"fp32\" or \"pow2\""},
      {"scale", e4m3 && name != "e2m1" && name != "int4", scale_for_name,
       "element = \"e2m1\" or \"int4\", or another scale"},
      {"rounding", name == "fp32" && o.rounding == Rounding::stochastic,
       "\"stochastic\" for fp32 elements", "\"nearest\": fp32 is never rounded"},
      {"subnormals",
       o.subnormals == Subnormals::flush && (element.bits > 8 || !has_subnormals(element)),
       fmt::format("\"flush\" for {} elements", name),
       "\"keep\", or floating elements of at most 8 bits that have subnormals"},
      {"overflow", o.overflow == Overflow::special && element.specials == Specials::none,
       fmt::format("\"special\" for {} elements, which have neither infinity nor NaN", name),
       "\"saturate\""},
  };
}

/// What scales can be fitted, and what a choice among several asks.
std::vector<Rule> fit_rules(const Operand& o) {
  const bool fits = o.fit.size() > 0, chooses = o.fit.size() > 1;
  const std::string name(o.element->short_name);
  return {
      {"fit", fits && o.is_unscaled(), "a fit without scale", "a scale, or no fit"},
      {"fit", fits && o.scale == ScaleKind::e8m0, "a fit for \"e8m0\" scales",
       "scale_rule, or scale = \"fp32\", \"pow2\" or \"e4m3\""},
      {"fit", fits && !o.element->is_signed, fmt::format("a fit for {} elements", name), "no fit"},
      {"fit", chooses && o.block.kind != Block::Kind::tile,
       fmt::format("a list for blocks of {}", block_text(o.block)), "one fit, or block = [r, c]"},
      {"prescale", chooses && o.prescale != 1, fmt::format("{} beside a list of fits", o.prescale),
       "1, or one fit"},
  };
}

/// What a choice between two elements asks. [linear.md 7]
std::vector<Rule> list_rules(const Operand& o) {
  const bool lists = o.other != nullptr;
  const std::string_view of_list = "beside a list of elements";
  return {
      {"element", lists && o.scale != ScaleKind::e4m3,
       fmt::format("a list for {} scales", quoted(name_of(o.scale))),
       "one element, or scale = \"e4m3\""},
      {"fit", lists && o.fit.size() > 1, fmt::format("a list {}", of_list),
       "one fit, or one element"},
      {"prescale", lists && o.prescale != 1, fmt::format("{} {}", o.prescale, of_list),
       "1, or one element"},
      {"rounding", lists && o.rounding == Rounding::eden, fmt::format("\"eden\" {}", of_list),
       "\"nearest\" or \"stochastic\", or one element"},
      {"subnormals", lists && o.subnormals == Subnormals::flush,
       fmt::format("\"flush\" {}", of_list), "\"keep\", or one element"},
      {"gradient", lists && o.gradient != RoundingGradient::straight,
       fmt::format("{} {}", quoted(o.gradient == RoundingGradient::clip ? "clip" : "dge"), of_list),
       "\"straight\", or one element"},
  };
}

/// What corrected scales ask. [linear.md 5]
std::vector<Rule> eden_rules(const Operand& o) {
  const bool eden = o.rounding == Rounding::eden;
  return {
      {"rounding", eden && o.scale != ScaleKind::e4m3,
       fmt::format("\"eden\" for {} scales", quoted(name_of(o.scale))), "scale = \"e4m3\""},
      {"rounding", eden && o.block.rows != 1,
       fmt::format("\"eden\" for blocks of {}", block_text(o.block)), "blocks of one row"},
      {"fit", eden && o.fit.size() > 1, "a list beside \"eden\"", "one fit, or none"},
      {"prescale", eden && o.prescale != 1, fmt::format("{} beside \"eden\"", o.prescale), "1"},
  };
}

/// What a statistic in place of amax asks.
std::vector<Rule> statistic_rules(const Operand& o) {
  const bool has_one = o.scale_of != ScaleOf::amax;
  const bool e8m0 = o.scale == ScaleKind::e8m0;
  const bool integer = o.element->kind == ElementKind::integer && o.element->mantissa_bits == 0;
  const bool is_scale = o.scale_of == ScaleOf::mean_abs && integer && o.scale == ScaleKind::fp32;
  return {
      {"scale_of", has_one && !e8m0 && !is_scale,
       fmt::format("{} for {} scales of {} elements",
                   o.scale_of == ScaleOf::rms ? "\"rms\"" : "\"mean_abs\"",
                   quoted(name_of(o.scale)), o.element->short_name),
       "\"amax\"; scale = \"e8m0\", or \"mean_abs\" and scale = \"fp32\" of integers"},
      {"scale_rule", has_one && o.scale_rule == ScaleRule::mse,
       "\"mse\" beside a scale that is not of amax", "\"floor\", \"rceil\", \"ceil\" or \"even\""},
      {"fit", has_one && o.fit.size() > 0, "a fit of a scale that is not of amax", "no fit"},
  };
}

/// What a factor of gradients asks of the elements. [linear.md 6]
std::vector<Rule> gradient_rules(const Operand& o) {
  const bool has_factor = o.gradient != RoundingGradient::straight;
  const std::string_view word = o.gradient == RoundingGradient::clip ? "clip" : "dge";
  return {
      {"gradient", has_factor && o.element->bits > 8,
       fmt::format("{} for {} elements", quoted(word), o.element->short_name),
       "\"straight\", or elements of at most 8 bits"},
      {"gradient", o.gradient == RoundingGradient::dge && o.subnormals == Subnormals::flush,
       "\"dge\" beside subnormals = \"flush\"", "subnormals = \"keep\""},
  };
}

/// Regions of the second level hold whole blocks; eden's groups lie in one. [linear.md 5, 7]
std::vector<Rule> region_rules(const Operand& o) {
  const bool tile = o.tensor_block.kind == Block::Kind::tile;
  const bool row = o.tensor_block.kind == Block::Kind::row;
  const bool has_blocks = o.block.kind == Block::Kind::tile;
  const bool is_cut =
      tile && has_blocks &&
      (o.tensor_block.rows % o.block.rows != 0 || o.tensor_block.cols % o.block.cols != 0);
  const std::string region = block_text(o.tensor_block);
  return {
      {"tensor_block", is_cut || (row && has_blocks && o.block.rows != 1),
       fmt::format("{} beside blocks of {}", region, block_text(o.block)), "whole blocks"},
      {"tensor_block", tile && o.rounding == Rounding::eden, region + " beside \"eden\"",
       "\"tensor\" or \"row\""},
  };
}

/// What a kind of scale asks of the other properties.
std::vector<Rule> rules_of_scale(const Operand& o) {
  const std::string scale = quoted(name_of(o.scale));
  const std::string block = block_text(o.block);
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
      {"scale_rule", !rule_fits, fmt::format("\"{}\" for {} scales", name_of(o.scale_rule), scale),
       rules},
  };
}

/// What states ask that are not element · scale; `is_state` says who may have their blocks.
/// [linear.md 9]
std::vector<Rule> state_rules(const Operand& o, bool is_state) {
  const std::string name(o.element->short_name), block = block_text(o.block);
  const bool map = o.map != CodeMap::none, parts = o.parts > 1;
  const bool is_long = o.block.kind == Block::Kind::tile && o.block.cols > kMaxBlock;
  const bool along_rows = o.block.kind == Block::Kind::tile && o.block.rows == 1;
  const bool has_blocks = map || o.expand;
  std::string_view word = "parts = 2";
  if (has_blocks) word = map ? "map = \"dynamic\"" : "expand = true";
  return {
      {"map", map && name != "int8", fmt::format("\"dynamic\" for {} elements", name),
       "element = \"int8\""},
      {"expand", o.expand && name != "e4m3", fmt::format("true for {} elements", name),
       "element = \"e4m3\", or false"},
      {"parts", parts && (name != "bf16" || !o.is_unscaled()),
       fmt::format("{} of {} elements", o.parts, name), "format = \"bf16\", or 1"},
      {"scale", has_blocks && o.scale != ScaleKind::fp32,
       fmt::format("{} beside {}", quoted(name_of(o.scale)), word), "\"fp32\""},
      {"block", has_blocks && !along_rows, fmt::format("{} beside {}", block, word), "[1, c]"},
      {"rounding", (has_blocks || parts) && o.rounding != Rounding::nearest,
       fmt::format("\"stochastic\" beside {}", word), "\"nearest\""},
      {"block", is_long && !is_state, fmt::format("{} outside of moments", block), kBlockExpected},
  };
}

}  // namespace

std::optional<OperandConflict> conflict_of(const Operand& operand, bool is_state) {
  for (const std::vector<Rule>& rules :
       {element_rules(operand), rules_of_scale(operand), list_rules(operand), fit_rules(operand),
        statistic_rules(operand), eden_rules(operand), gradient_rules(operand),
        region_rules(operand), state_rules(operand, is_state)})
    for (const Rule& rule : rules)
      if (rule.broken) return OperandConflict{rule.key, rule.problem, std::string(rule.remedy)};
  return {};
}

}  // namespace ng
