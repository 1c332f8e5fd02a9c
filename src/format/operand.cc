#include "format/operand.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "format/operand_table.h"

namespace ng {
namespace {

/// A row of the presets: what a format name of recipes.md §7 sets. Block cols 0: the whole tensor.
struct Preset {
  std::string_view name;
  std::string_view element;
  Block block;
  ScaleKind scale = ScaleKind::none;
  ScaleKind tensor_scale = ScaleKind::none;
  ScaleRule scale_rule = ScaleRule::floor;
  Overflow overflow = Overflow::saturate;
};

constexpr Block kTensor = {};
constexpr Block kRow = {.kind = Block::Kind::row};
constexpr Block kMx = {.kind = Block::Kind::tile, .rows = 1, .cols = 32};
constexpr Block kNvfp4 = {.kind = Block::Kind::tile, .rows = 1, .cols = 16};

constexpr std::array kPresets = {
    Preset{"fp32", "fp32", kTensor},
    // The range is FP32's, so nothing has to be clipped: what overflows stays visible.
    Preset{.name = "bf16", .element = "bf16", .block = kTensor, .overflow = Overflow::special},
    Preset{"fp16", "fp16", kTensor},
    Preset{"fp8_e4m3", "e4m3", kTensor, ScaleKind::fp32},
    Preset{"fp8_e5m2", "e5m2", kTensor, ScaleKind::fp32},
    Preset{"mxfp8_e4m3", "e4m3", kMx, ScaleKind::e8m0},
    Preset{"mxfp8_e5m2", "e5m2", kMx, ScaleKind::e8m0},
    Preset{"mxfp6_e3m2", "e3m2", kMx, ScaleKind::e8m0},
    Preset{"mxfp6_e2m3", "e2m3", kMx, ScaleKind::e8m0},
    Preset{"mxfp4", "e2m1", kMx, ScaleKind::e8m0},
    Preset{"mxint8", "mxint8", kMx, ScaleKind::e8m0},
    Preset{"nvfp4", "e2m1", kNvfp4, ScaleKind::e4m3, ScaleKind::fp32, ScaleRule::nearest},
    Preset{"int8", "int8", kRow, ScaleKind::fp32},
    Preset{"int4", "int4", kRow, ScaleKind::fp32},
};

constexpr auto kPresetNames = [] {
  std::array<std::string_view, kPresets.size()> names;
  for (size_t i = 0; i < kPresets.size(); ++i) names[i] = kPresets[i].name;
  return names;
}();

constexpr std::array<std::string_view, 5> kScaleNames = {"none", "fp32", "pow2", "e8m0", "e4m3"};

/// In the order of the enumeration; E8M0's rules, then E4M3's.
constexpr std::array<std::string_view, 7> kRuleNames = {"floor", "rceil",   "ceil", "even",
                                                        "mse",   "nearest", "up"};
constexpr auto kRules = [] {
  std::array<ScaleRule, kRuleNames.size()> rules{};
  for (size_t i = 0; i < rules.size(); ++i) rules[i] = static_cast<ScaleRule>(i);
  return rules;
}();
constexpr auto kPowerRules = static_cast<size_t>(ScaleRule::nearest);  // how many are E8M0's

template <class Enum, size_t n>
std::string_view name_in(Enum value, const std::array<std::string_view, n>& names) {
  return names[static_cast<size_t>(value)];
}

template <class Range>
std::string joined(const Range& words) {
  std::string text;
  for (const auto& word : words) (text += text.empty() ? "" : " ") += word;
  return text;
}

ScaleShape shape_of(const Block& block, int64_t rows, int64_t cols) {
  if (block.kind == Block::Kind::tensor) return {1, 1};
  if (block.kind == Block::Kind::row) return {rows, 1};
  const int64_t down = block.rows, across = block.cols;
  return {(rows + down - 1) / down, (cols + across - 1) / across};
}

double bits_of_scale(int bits, const Block& block) {
  if (block.kind != Block::Kind::tile) return 0;
  return bits / (static_cast<double>(block.rows) * block.cols);
}

Operand operand_of_preset(const Preset& preset) {
  Operand operand;
  operand.element = &element_format(preset.element);
  operand.block = preset.block;
  operand.scale = preset.scale;
  operand.tensor_scale = preset.tensor_scale;
  operand.scale_rule = preset.scale_rule;
  operand.overflow = preset.overflow;
  return operand;
}

}  // namespace

std::string text_of(const Block& block) {
  switch (block.kind) {
    case Block::Kind::tensor:
      return "tensor";
    case Block::Kind::row:
      return "row";
    default:
      return fmt::format("{}x{}", block.rows, block.cols);
  }
}

std::string_view name_of(ScaleKind kind) { return name_in(kind, kScaleNames); }

std::string_view name_of(ScaleRule rule) { return name_in(rule, kRuleNames); }

std::span<const ScaleRule> scale_rules() { return kRules; }

std::span<const ScaleRule> scale_rules(ScaleKind kind) {
  if (kind == ScaleKind::e8m0) return scale_rules().first(kPowerRules);
  if (kind == ScaleKind::e4m3) return scale_rules().subspan(kPowerRules);
  return {};
}

bool Operand::is_fp32() const {
  return is_unscaled() && prescale == 1.0f && element->name == "float32";
}

Operand operand_of(std::string_view format_name) {
  for (const Preset& preset : kPresets)
    if (preset.name == format_name) return operand_of_preset(preset);
  throw Error({.place = {},
               .key = {},
               .problem = fmt::format("unknown format \"{}\"", format_name),
               .remedy = fmt::format("{}known: {}", did_you_mean(format_name, kPresetNames),
                                     joined(kPresetNames))});
}

std::span<const std::string_view> operand_names() { return kPresetNames; }

std::string describe(const Operand& operand) {
  NG_CHECK(operand.element != nullptr);
  const NearestFormat nearest = nearest_format(operand);
  std::string text(nearest.name);
  for (const OperandKey* key : nearest.differing)
    text += (key->is_told_by_value ? " " : " " + key->path + " ") + word_of(*key, operand);
  return text;
}

bool Operand::has_one_power_of_two() const {
  return scale == ScaleKind::pow2 && block.kind == Block::Kind::tensor &&
         element->kind == ElementKind::floating;
}

bool Operand::is_exact_in_bf16() const {
  const bool powers = scale != ScaleKind::fp32 && scale != ScaleKind::e4m3;
  return element->bits <= 8 && powers && tensor_scale == ScaleKind::none;
}

bool Operand::factors_are_bf16() const {
  constexpr int kBf16Bits = 8, kE4m3Bits = 4;  // of significands
  const bool is_integer = element->kind == ElementKind::integer;
  const int bits = is_integer ? element->bits - 1 : element->mantissa_bits + 1;
  if (element->exponent_bits > 8 || other != nullptr || has_folded_scales()) return false;
  if (is_unscaled() || block.kind != Block::Kind::tile) return bits <= kBf16Bits;
  return scale != ScaleKind::fp32 && bits + (scale == ScaleKind::e4m3 ? kE4m3Bits : 0) <= kBf16Bits;
}

Operand Operand::rounded_by(Rounding mode) const {
  Operand changed = *this;
  changed.rounding = mode;
  changed.sr_bits = Operand{}.sr_bits;
  return changed;
}

Operand Operand::passing_straight() const {
  Operand changed = *this;
  changed.gradient = Operand{}.gradient;
  changed.dge_k = Operand{}.dge_k;
  changed.dge_max = Operand{}.dge_max;
  return changed;
}

const ElementFormat& scale_element(const Operand& operand) {
  if (operand.scale == ScaleKind::e8m0) return element_format("e8m0");
  return operand.scale == ScaleKind::e4m3 ? element_format("ue4m3") : fp32_format();
}

ScaleShape scale_shape(const Operand& operand, int64_t rows, int64_t cols) {
  return operand.is_unscaled() ? ScaleShape{} : shape_of(operand.block, rows, cols);
}

ScaleShape tensor_scale_shape(const Operand& operand, int64_t rows, int64_t cols) {
  return operand.is_unscaled() ? ScaleShape{} : shape_of(operand.tensor_block, rows, cols);
}

bool has_scale_codes(const Operand& operand) {
  return operand.scale == ScaleKind::e8m0 || operand.scale == ScaleKind::e4m3;
}

int scale_bits(const Operand& operand) { return has_scale_codes(operand) ? 8 : 32; }

double bits_per_value(const Operand& operand) {
  NG_CHECK(operand.element != nullptr);
  if (operand.is_unscaled()) return operand.element->bits * operand.parts;
  return operand.element->bits +
         bits_of_scale(numbers_per_block(operand) * scale_bits(operand), operand.block) +
         bits_of_scale(32, operand.tensor_block);
}

}  // namespace ng
