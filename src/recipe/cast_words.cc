#include "recipe/cast_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "format/cast_names.h"
#include "recipe/operand_keys.h"

namespace ng {

std::string flag_of(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

namespace {

using Part = OperandKeyUse::Part;

// say(key, word) for every key that the words say something of, in the order of the table.
template <class Say>
void for_each_word(const CastWords& words, const Say& say) {
  for (const OperandKey& key : operand_keys())
    if (const std::string word(words.word(key.path)); !word.empty()) say(key, word);
}

// The words as an operand of a recipe, so that they are read and checked like one.
std::string operand_toml(const CastWords& words) {
  const std::string_view preset = preset_name(words.format);
  std::string text = preset.empty() ? "format = \"fp32\", element = " +
                                          toml_quote(known_element(words.format).short_name)
                                    : "format = " + toml_quote(preset);
  for_each_word(words, [&](const OperandKey& key, const std::string& word) {
    text += fmt::format(", {} = {}", key.path, toml_of(key, word));
  });
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
    const std::string key = parts.key.substr(parts.key.find('.') + 1);
    parts.place = "cast";
    parts.key = key == "operand" ? "--format" : flag_of(key);
    throw Error(parts);
  }
}

Error eden_refusal(const std::string& place, const std::string& key) {
  return Error({.place = place,
                .key = key,
                .problem = "\"eden\" without the transform of a GEMM, whose groups it corrects",
                .remedy = "nearest or stochastic"});
}

void set_rounding(Operand& operand, const CastWords& words) {
  if (words.word("rounding") == "stochastic") operand.rounding = Rounding::stochastic;
  if (words.word("overflow") == "special") operand.overflow = Overflow::special;
  if (words.has("sr_bits"))
    operand.sr_bits = static_cast<int>(std::stoll(std::string(words.word("sr_bits")), nullptr, 0));
}

bool is_for_gemms(const ElementFormat& element) {
  return element.is_signed && element.kind != ElementKind::power;
}

// An element that no GEMM takes is rounded by the format table alone.
Operand plain_element(const CastWords& words, const ElementFormat& element) {
  if (is_for_gemms(element) && words.has("block"))
    throw Error(
        {.place = "cast",
         .key = "--block",
         .problem = fmt::format("\"{}\" without a scale for {}", words.word("block"), words.format),
         .remedy = "--scale fp32, pow2, e8m0 or e4m3, or no --block"});
  for_each_word(words, [&](const OperandKey& key, const std::string& word) {
    if (key.part != Part::scale || (key.path == "scale" && word == "none")) return;
    throw Error({.place = "--format",
                 .key = words.format,
                 .problem = "takes no scale",
                 .remedy = "an element of a GEMM operand, or no scale flags"});
  });
  Operand operand;
  operand.element = &element;
  set_rounding(operand, words);
  return operand;
}

// What a key should say of affine integers; null: what it does.
const char* affine_remedy(const OperandKey& key, std::string_view word) {
  if (key.path == "overflow") return word == "saturate" ? nullptr : "\"saturate\"";
  if (key.part != Part::scale || key.path == "block") return nullptr;
  if (key.path == "scale") return word == "fp32" ? nullptr : "\"fp32\"";
  if (key.path == "tensor_scale") return "no second scale";
  if (key.path == "scale_rule") return "no rule: the scale is not rounded";
  return "no fit: a scale spans the values that share it";
}

// Unsigned integers with a zero point per scale. [formats.md §6]
Operand affine(const CastWords& words, const ElementFormat& element) {
  for_each_word(words, [&](const OperandKey& key, const std::string& word) {
    const char* remedy = affine_remedy(key, word);
    if (remedy == nullptr) return;
    throw Error({.place = "cast",
                 .key = flag_of(key.path),
                 .problem = fmt::format("\"{}\" for affine {}", word, element.short_name),
                 .remedy = remedy});
  });
  Operand operand = *find_cast(element.name);
  set_rounding(operand, words);
  if (!words.has("block")) return operand;
  CastWords block{.format = "fp32", .words = {{"block", std::string(words.word("block"))}}};
  read_as_flags(operand_toml(block), [&](const TomlItem& item) {
    operand.block = read_block(*find_item(*item.value->as_table(), "block", "operand."));
  });
  return operand;
}

Operand scaled_or_plain(const CastWords& words) {
  if (preset_name(words.format).empty()) {
    const ElementFormat& element = known_element(words.format);
    const std::string_view scale = words.word("scale");
    if (is_affine_element(element) && scale != "none") return affine(words, element);
    if (scale.empty() || scale == "none" || !is_for_gemms(element))
      return plain_element(words, element);
    if ((scale == "e8m0" || scale == "e4m3") && !words.has("block"))
      throw Error({.place = "cast",
                   .key = "--scale",
                   .problem = fmt::format("\"{}\" without a block for {}", scale, words.format),
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
    if (operand.rounding == Rounding::eden) throw eden_refusal("", "operand.rounding");
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

std::string_view CastWords::word(std::string_view key) const {
  const auto found = words.find(key);
  return found == words.end() ? std::string_view() : found->second;
}

Operand CastWords::operand() const {
  if (word("rounding") == "eden") throw eden_refusal("cast", "--rounding");
  if (has("sr_bits") && word("rounding") != "stochastic")
    throw Error({.place = "cast",
                 .key = "--sr-bits",
                 .problem = fmt::format("{} without stochastic rounding", word("sr_bits")),
                 .remedy = "--rounding stochastic"});
  Operand operand = scaled_or_plain(*this);
  if (has("scale_rule") && scale_rules(operand.scale).empty())
    throw Error({.place = "cast",
                 .key = "--scale-rule",
                 .problem = fmt::format("\"{}\" for \"{}\" scales", word("scale_rule"),
                                        name_of(operand.scale)),
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
