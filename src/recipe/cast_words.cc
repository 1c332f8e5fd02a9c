#include "recipe/cast_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "format/cast_names.h"
#include "recipe/operand_keys.h"

namespace ng {
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

// The words as an operand of a recipe, so that they are read and checked like one.
std::string operand_toml(const CastWords& words) {
  const std::string_view preset = preset_name(words.format);
  std::string text = preset.empty() ? "format = \"fp32\", element = " +
                                          toml_quote(known_element(words.format).short_name)
                                    : "format = " + toml_quote(preset);
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(", {} = {}", key, value);
  };
  const auto quoted = [](const std::string& word) { return word.empty() ? "" : toml_quote(word); };
  add("block", words.block.empty() ? "" : block_toml(words.block));
  add("scale", quoted(words.scale));
  add("tensor_scale", quoted(words.tensor_scale));
  add("scale_rule", quoted(words.scale_rule));
  add("rounding", quoted(words.rounding));
  add("sr_bits", words.sr_bits == 0 ? "" : std::to_string(words.sr_bits));
  add("overflow", quoted(words.overflow));
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

void set_rounding(Operand& operand, const CastWords& words) {
  if (words.rounding == "stochastic") operand.rounding = Rounding::stochastic;
  if (words.overflow == "special") operand.overflow = Overflow::special;
  if (words.sr_bits != 0) operand.sr_bits = static_cast<int>(words.sr_bits);
}

bool is_for_gemms(const ElementFormat& element) {
  return element.is_signed && element.kind != ElementKind::power;
}

// An element that no GEMM takes is rounded by the format table alone.
Operand plain_element(const CastWords& words, const ElementFormat& element) {
  const bool scaled = !words.scale.empty() && words.scale != "none";
  if (is_for_gemms(element) && !words.block.empty())
    throw Error({.place = "cast",
                 .key = "--block",
                 .problem = fmt::format("\"{}\" without a scale for {}", words.block, words.format),
                 .remedy = "--scale fp32, pow2, e8m0 or e4m3, or no --block"});
  if (scaled || !words.block.empty() || !words.tensor_scale.empty() || !words.scale_rule.empty())
    throw Error({.place = "--format",
                 .key = words.format,
                 .problem = "takes no scale",
                 .remedy = "an element of a GEMM operand, or no scale flags"});
  Operand operand;
  operand.element = &element;
  set_rounding(operand, words);
  return operand;
}

// Unsigned integers with a zero point per scale. [formats.md §6]
Operand affine(const CastWords& words, const ElementFormat& element) {
  const auto refuse = [&](const char* flag, const std::string& value, const char* remedy) {
    if (value.empty()) return;
    throw Error({.place = "cast",
                 .key = flag,
                 .problem = fmt::format("\"{}\" for affine {}", value, element.short_name),
                 .remedy = remedy});
  };
  refuse("--scale", words.scale == "fp32" ? "" : words.scale, "\"fp32\"");
  refuse("--tensor-scale", words.tensor_scale, "no second scale");
  refuse("--scale-rule", words.scale_rule, "no rule: the scale is not rounded");
  refuse("--overflow", words.overflow == "special" ? words.overflow : "", "\"saturate\"");
  Operand operand = *find_cast(element.name);
  set_rounding(operand, words);
  if (words.block.empty()) return operand;
  read_as_flags("operand.block = " + block_toml(words.block), [&](const TomlItem& item) {
    operand.block = read_block(*find_item(*item.value->as_table(), "block", "operand."));
  });
  return operand;
}

Operand scaled_or_plain(const CastWords& words) {
  if (preset_name(words.format).empty()) {
    const ElementFormat& element = known_element(words.format);
    if (is_affine_element(element) && words.scale != "none") return affine(words, element);
    if (words.scale.empty() || words.scale == "none" || !is_for_gemms(element))
      return plain_element(words, element);
    const bool in_blocks = words.scale == "e8m0" || words.scale == "e4m3";
    if (in_blocks && words.block.empty())
      throw Error(
          {.place = "cast",
           .key = "--scale",
           .problem = fmt::format("\"{}\" without a block for {}", words.scale, words.format),
           .remedy = "--block 1x32 or another"});
  }
  Operand operand;
  read_as_flags(operand_toml(words), [&](const TomlItem& item) { read_operand(operand, item); });
  return operand;
}

// A name that recipes do not have: as cast reads it.
Operand element_operand(const std::string& flag, const std::string& text) {
  Operand operand;
  try {
    operand = cast_named(text);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.place = flag;
    parts.key = "";
    throw Error(parts);
  }
  if (is_for_gemms(*operand.element)) return operand;
  throw Error({.place = flag,
               .key = text,
               .problem = "no product takes its elements",
               .remedy = "a format of signed elements; narrowgauge formats lists all"});
}

// Behind a table there may be another line of TOML. What is an operand's holds no second brace.
void refuse_rest(std::string_view table) {
  const size_t end = table.find('}') + 1;
  if (table.find_first_not_of(" \t\r\n", end) == std::string_view::npos) return;
  throw Error(
      {.place = "",
       .key = "",
       .problem = fmt::format("\"{}\" behind the table", on_one_line(table.substr(end, 60))),
       .remedy = "one table alone"});
}

// A format of recipes, or a table of a recipe's operand keys.
Operand recipe_operand(const std::string& flag, const std::string& text) {
  const bool is_table = text.starts_with('{');
  Operand operand = operand_of("fp32");
  try {
    const toml::table document =
        parse_toml("operand = " + (is_table ? text : toml_quote(text)), flag);
    read_operand(operand, *find_item(document, "operand", ""));
    if (is_table) refuse_rest(text);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.place = flag;
    parts.key =
        parts.key.find('.') == std::string::npos ? "" : parts.key.substr(parts.key.find('.') + 1);
    throw Error(parts);
  }
  return operand;
}

}  // namespace

Operand CastWords::operand() const {
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

Operand cast_named(const std::string& name) {
  CastWords words;
  words.format = name;
  return words.operand();
}

Operand factor_cast(const std::string& flag, const std::string& text) {
  const bool is_of_recipes = text.starts_with('{') || is_operand_name(text) || text == "float32";
  const Operand operand = is_of_recipes ? recipe_operand(flag, text == "float32" ? "fp32" : text)
                                        : element_operand(flag, text);
  if (operand.scaling == Scaling::delayed)
    throw Error({.place = flag,
                 .key = "scaling",
                 .problem = "\"delayed\" without a history",
                 .remedy = "\"current\""});
  return operand;
}

}  // namespace ng
