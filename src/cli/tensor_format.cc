#include "cli/tensor_format.h"

#include <algorithm>

#include "base/error.h"
#include "cli/format_names.h"
#include "format/cast_names.h"
#include "recipe/operand_keys.h"

namespace ng::cli {
namespace {

// "RxC" as TOML; other words as strings.
std::string block_toml(const std::string& block) {
  const size_t x = block.find('x');
  const auto digits = [](std::string_view s) {
    return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == s.npos;
  };
  if (x == std::string::npos || !digits(block.substr(0, x)) || !digits(block.substr(x + 1)))
    return toml_quote(block);
  return fmt::format("[{}, {}]", std::stoi(block.substr(0, x)), std::stoi(block.substr(x + 1)));
}

// The flags as an operand of a recipe, so that they are read and checked like one.
std::string operand_toml(const FormatFlags& flags) {
  const std::string_view preset = preset_name(flags.format);
  std::string text = preset.empty() ? "format = \"fp32\", element = " +
                                          toml_quote(known_element(flags.format).short_name)
                                    : "format = " + toml_quote(preset);
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(", {} = {}", key, value);
  };
  const auto quoted = [](const std::string& word) { return word.empty() ? "" : toml_quote(word); };
  add("block", flags.block.empty() ? "" : block_toml(flags.block));
  add("scale", quoted(flags.scale));
  add("tensor_scale", quoted(flags.tensor_scale));
  add("scale_rule", quoted(flags.scale_rule));
  add("rounding", quoted(flags.rounding));
  add("sr_bits", flags.sr_bits == 0 ? "" : std::to_string(flags.sr_bits));
  add("overflow", quoted(flags.overflow));
  return "operand = { " + text + " }";
}

// Errors about keys of a recipe as errors about flags.
template <class Read>
void read_as_flags(const std::string& text, const Read& read) {
  const toml::table document = parse_toml(text, "cast");
  try {
    read(*find_item(document, "operand", ""));
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    std::string flag = parts.key.substr(parts.key.find('.') + 1);
    std::replace(flag.begin(), flag.end(), '_', '-');
    parts.place = "cast";
    parts.key = flag == "operand" ? "--format" : "--" + flag;
    throw Error(parts);
  }
}

void set_rounding(Operand& operand, const FormatFlags& flags) {
  if (flags.rounding == "stochastic") operand.rounding = Rounding::stochastic;
  if (flags.overflow == "special") operand.overflow = Overflow::special;
  if (flags.sr_bits != 0) operand.sr_bits = static_cast<int>(flags.sr_bits);
}

bool is_for_gemms(const ElementFormat& element) {
  return element.is_signed && element.kind != ElementKind::power;
}

// An element that no GEMM takes is rounded by the format table alone.
Operand plain_element(const FormatFlags& flags, const ElementFormat& element) {
  const bool scaled = !flags.scale.empty() && flags.scale != "none";
  if (is_for_gemms(element) && !flags.block.empty())
    throw Error({.place = "cast",
                 .key = "--block",
                 .problem = fmt::format("\"{}\" without a scale for {}", flags.block, flags.format),
                 .remedy = "--scale fp32, pow2, e8m0 or e4m3, or no --block"});
  if (scaled || !flags.block.empty() || !flags.tensor_scale.empty() || !flags.scale_rule.empty())
    throw Error({.place = "--format",
                 .key = flags.format,
                 .problem = "takes no scale",
                 .remedy = "an element of a GEMM operand, or no scale flags"});
  Operand operand;
  operand.element = &element;
  set_rounding(operand, flags);
  return operand;
}

// Unsigned integers with a zero point per scale. [formats.md §6]
Operand affine(const FormatFlags& flags, const ElementFormat& element) {
  const auto refuse = [&](const char* flag, const std::string& value, const char* remedy) {
    if (value.empty()) return;
    throw Error({.place = "cast",
                 .key = flag,
                 .problem = fmt::format("\"{}\" for affine {}", value, element.short_name),
                 .remedy = remedy});
  };
  refuse("--scale", flags.scale == "fp32" ? "" : flags.scale, "\"fp32\"");
  refuse("--tensor-scale", flags.tensor_scale, "no second scale");
  refuse("--scale-rule", flags.scale_rule, "no rule: the scale is not rounded");
  refuse("--overflow", flags.overflow == "special" ? flags.overflow : "", "\"saturate\"");
  Operand operand = *find_cast(element.name);
  set_rounding(operand, flags);
  if (flags.block.empty()) return operand;
  read_as_flags("operand.block = " + block_toml(flags.block), [&](const TomlItem& item) {
    operand.block = read_block(*find_item(*item.value->as_table(), "block", "operand."));
  });
  return operand;
}

Operand scaled_or_plain(const FormatFlags& flags) {
  if (preset_name(flags.format).empty()) {
    const ElementFormat& element = known_element(flags.format);
    if (is_affine_element(element) && flags.scale != "none") return affine(flags, element);
    if (flags.scale.empty() || flags.scale == "none" || !is_for_gemms(element))
      return plain_element(flags, element);
    const bool in_blocks = flags.scale == "e8m0" || flags.scale == "e4m3";
    if (in_blocks && flags.block.empty())
      throw Error(
          {.place = "cast",
           .key = "--scale",
           .problem = fmt::format("\"{}\" without a block for {}", flags.scale, flags.format),
           .remedy = "--block 1x32 or another"});
  }
  Operand operand;
  read_as_flags(operand_toml(flags), [&](const TomlItem& item) { read_operand(operand, item); });
  return operand;
}

}  // namespace

Operand FormatFlags::operand() const {
  if (sr_bits != 0 && rounding != "stochastic")
    throw Error({.place = "cast",
                 .key = "--sr-bits",
                 .problem = fmt::format("{} without stochastic rounding", sr_bits),
                 .remedy = "--rounding stochastic"});
  Operand operand = scaled_or_plain(*this);
  if (!scale_rule.empty() && scale_rules(operand.scale).empty())
    throw Error(
        {.place = "cast",
         .key = "--scale-rule",
         .problem = fmt::format("\"{}\" for \"{}\" scales", scale_rule, name_of(operand.scale)),
         .remedy = "no rule: only e8m0 and e4m3 scales are rounded by one"});
  if (operand.element->bits <= 16) return operand;
  throw Error({.place = "--format",
               .key = format,
               .problem = "has nothing to round to",
               .remedy = "a format of at most 16 bits; narrowgauge formats lists them"});
}

void FormatFlags::declare(CLI::App& app) {
  app.add_option("--rounding", rounding, "nearest or stochastic")
      ->check(CLI::IsMember({"nearest", "stochastic"}));
  app.add_option("--overflow", overflow,
                 "saturate, or special: infinities and NaN (special only for bf16, else saturate)")
      ->check(CLI::IsMember({"saturate", "special"}));
  app.add_option("--scale-rule", scale_rule,
                 "E8M0: floor, rceil, ceil, even, mse; NVFP4: nearest, up");
  app.add_option("--block", block, "values that share a scale: RxC, tensor or row");
  app.add_option("--scale", scale, "none, fp32, pow2, e8m0 or e4m3");
  app.add_option("--tensor-scale", tensor_scale, "second level: none, fp32 or pow2");
  app.add_option("--sr-bits", sr_bits, "random bits per value")->check(CLI::IsMember({8, 16, 32}));
}

Operand format_named(const std::string& name) {
  FormatFlags flags;
  flags.format = name;
  return flags.operand();
}

}  // namespace ng::cli
