#include "format/operand_table.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "format/exmy.h"
#include "format/operand_values.h"

namespace ng {
namespace {

using Kind = OperandKeyUse::Kind;
using Part = OperandKeyUse::Part;

Choices<ScaleKind> scale_kinds(std::initializer_list<ScaleKind> kinds) {
  Choices<ScaleKind> choices;
  for (const ScaleKind kind : kinds) choices.items.emplace_back(name_of(kind), kind);
  return choices;
}

Choices<ScaleRule> all_scale_rules() {
  Choices<ScaleRule> choices;
  for (const ScaleRule rule : scale_rules()) choices.items.emplace_back(name_of(rule), rule);
  return choices;
}

/// A row whose values are the names of an enumeration, which its use lists.
template <class Enum, class Get>
OperandKey choice(std::string path, Get get, const Choices<Enum>& choices, std::string doc,
                  OperandKeyUse use) {
  use.values = choices.names();
  return {choice_key<Operand>(std::move(path), get, choices, std::move(doc)), std::move(use)};
}

OperandKey format_key() {
  return {
      {{.path = "format",
        .expected = one_of(operand_names()),
        .doc = "sets all other keys of the operand to what the format stands for"},
       [](Operand& o, const TomlItem& item) { o = operand_of(read_name(item, operand_names())); },
       [](const Operand&) { return std::string(); }},
      {}};
}

OperandKey element_key() {
  return {{{.path = "element",
            .expected = fmt::format("{}, or any {}", one_of(operand_element_names()), kExmyNames),
            .doc = "format of one value"},
           [](Operand& o, const TomlItem& item) { o.element = &read_element(item); },
           [](const Operand& o) { return toml_quote(o.element->short_name); }},
          {.field = "element"}};
}

OperandKey block_key() {
  return {{{.path = "block",
            .expected = std::string(kBlockExpected),
            .doc = "values that share a scale; c runs along the reduction dimension"},
           [](Operand& o, const TomlItem& item) { o.block = read_block(item); },
           [](const Operand& o) { return print_block(o.block); }},
          {.kind = Kind::block,
           .part = Part::scale,
           .field = "block",
           .flag = {4, "values that share a scale: RxC, tensor or row"}}};
}

/// The rule belongs to the scale: a new scale starts with its own default.
OperandKey scale_key() {
  using enum ScaleKind;
  OperandKey key = choice(
      "scale", [](auto& o) -> auto& { return o.scale; },
      scale_kinds({none, fp32, pow2, e8m0, e4m3}), "what a block's scale is written in",
      {.part = Part::scale, .field = "scale", .flag = {5, "none, fp32, pow2, e8m0 or e4m3"}});
  key.read = [read = key.read](Operand& o, const TomlItem& item) {
    read(o, item);
    o.scale_rule = o.scale == ScaleKind::e4m3 ? ScaleRule::nearest : ScaleRule::floor;
  };
  return key;
}

OperandKey tensor_scale_key() {
  using enum ScaleKind;
  return choice("tensor_scale", [](auto& o) -> auto& { return o.tensor_scale; },
                scale_kinds({none, fp32, pow2}),
                "second scale, of the whole tensor, above e4m3 scales",
                {.part = Part::scale,
                 .field = "tensor_scale",
                 .flag = {6, "second level: none, fp32 or pow2"}});
}

KeyNeed needs_delayed(void (*forget)(Operand&)) {
  return {"scaling = \"delayed\"", [](const Operand& o) { return o.scaling == Scaling::delayed; },
          forget};
}

void add_delayed_keys(std::vector<OperandKey>& keys) {
  keys.push_back(
      choice("scaling", [](auto& o) -> auto& { return o.scaling; },
             Choices<Scaling>{{{"current", Scaling::current}, {"delayed", Scaling::delayed}}},
             "scale from this tensor, or from the history of earlier steps",
             {.part = Part::scale, .is_told_by_value = true}));
  keys.push_back(
      {integer_key<Operand>(
           "amax_history", [](auto& o) -> auto& { return o.amax_history; }, {1, 65536},
           "steps that delayed scaling looks back"),
       {.kind = Kind::integer, .part = Part::scale, .need = needs_delayed([](Operand& o) {
                                                      o.amax_history = Operand{}.amax_history;
                                                    })}});
  keys.push_back(choice(
      "amax_compute", [](auto& o) -> auto& { return o.amax_compute; },
      Choices<AmaxCompute>{{{"max", AmaxCompute::max}, {"most_recent", AmaxCompute::most_recent}}},
      "which amax of the history delayed scaling uses",
      {.part = Part::scale,
       .need = needs_delayed([](Operand& o) { o.amax_compute = Operand{}.amax_compute; })}));
  keys.push_back({integer_key<Operand>(
                      "margin", [](auto& o) -> auto& { return o.margin; }, {0, 32},
                      "binades that delayed scaling leaves free at the top"),
                  {.kind = Kind::integer,
                   .part = Part::scale,
                   .need = needs_delayed([](Operand& o) { o.margin = Operand{}.margin; })}});
}

OperandKey scale_rule_key() {
  return choice("scale_rule", [](auto& o) -> auto& { return o.scale_rule; }, all_scale_rules(),
                "how an e8m0 scale (floor ... mse) or an e4m3 scale (nearest, up) is rounded",
                {.part = Part::scale,
                 .field = "scale_rule",
                 .flag = {3, "E8M0: floor, rceil, ceil, even, mse; NVFP4: nearest, up"}});
}

void add_fit_keys(std::vector<OperandKey>& keys) {
  keys.push_back({{{.path = "fit",
                    .expected = std::string(kFitsExpected),
                    .doc = "element value that a block's largest magnitude is scaled to, without "
                           "it the largest element; of a list each block takes the best"},
                   [](Operand& o, const TomlItem& item) { o.fit = read_fits(item); },
                   [](const Operand& o) { return print_fits(o.fit); }},
                  {.kind = Kind::numbers,
                   .part = Part::scale,
                   .field = "fit",
                   .flag = {8, "what blocks' largest values are scaled to: A, or A,B to try"}}});
  keys.push_back(
      choice("select", [](auto& o) -> auto& { return o.select; },
             Choices<Select>{{{"mse", Select::mse}, {"mae", Select::mae}, {"max", Select::max}}},
             "error by which a block takes one of its fits: squared, absolute, or the largest",
             {.part = Part::scale,
              .field = "select",
              .flag = {9, "error by which a fit is taken: mse, mae or max"},
              .need = {"a list of fits", [](const Operand& o) { return o.fit.size() > 1; },
                       [](Operand& o) { o.select = Operand{}.select; }}}));
  keys.push_back(
      {number_key<Operand>(
           "scale_max", [](auto& o) -> auto& { return o.scale_max; }, {1, 448},
           "e4m3 scale that the tensor's largest block is given; fits may need room above it"),
       {.kind = Kind::number,
        .part = Part::scale,
        .field = "scale_max",
        .flag = {10, "e4m3 scale of the tensor's largest block"},
        .need = {"a tensor_scale",
                 [](const Operand& o) { return o.tensor_scale != ScaleKind::none; },
                 [](Operand& o) { o.scale_max = Operand{}.scale_max; }}}});
}

OperandKey sr_bits_key() {
  return {{{.path = "sr_bits",
            .expected = "16, 8 or 32",
            .doc = "random bits of a stochastic rounding"},
           [](Operand& o, const TomlItem& item) {
             const int64_t bits = item.value->is_integer() ? item.value->as_integer()->get() : 0;
             if (bits != 8 && bits != 16 && bits != 32) item.refuse_value("16, 8 or 32");
             o.sr_bits = int(bits);
           },
           [](const Operand& o) { return print_value(int64_t{o.sr_bits}); }},
          {.kind = Kind::integer,
           .part = Part::rounding,
           .values = {"8", "16", "32"},
           .field = "random_bits",
           .flag = {7, "random bits per value", true},
           .need = {"rounding = \"stochastic\"",
                    [](const Operand& o) { return o.rounding == Rounding::stochastic; },
                    [](Operand& o) { o.sr_bits = Operand{}.sr_bits; }}}};
}

void add_rounding_keys(std::vector<OperandKey>& keys) {
  keys.push_back(choice(
      "rounding", [](auto& o) -> auto& { return o.rounding; },
      Choices<Rounding>{{{"nearest", Rounding::nearest}, {"stochastic", Rounding::stochastic}}},
      "of each element",
      {.part = Part::rounding,
       .field = "rounding",
       .flag = {1, "nearest or stochastic", true},
       .is_told_by_value = true}));
  keys.push_back(sr_bits_key());
  keys.push_back(choice(
      "overflow", [](auto& o) -> auto& { return o.overflow; },
      Choices<Overflow>{{{"saturate", Overflow::saturate}, {"special", Overflow::special}}},
      "what becomes of values beyond the largest: it, or infinity or NaN",
      {.part = Part::rounding,
       .field = "overflow",
       .flag = {2,
                "saturate, or special: infinities and NaN (special only for bf16, else saturate)",
                true}}));
  keys.push_back({number_key<Operand>(
                      "prescale", [](auto& o) -> auto& { return o.prescale; }, {0x1p-16, 0x1p16},
                      "multiplies each value after its scale was chosen; undone at "
                      "the end of the GEMM"),
                  {.kind = Kind::number, .part = Part::rounding, .field = "prescale"}});
}

/// A number as TOML has it; empty where it is none.
std::string number_text(const std::string& word) {
  char* end = nullptr;
  const long long whole = std::strtoll(word.c_str(), &end, 0);
  if (!word.empty() && *end == 0) return std::to_string(whole);
  const double number = std::strtod(word.c_str(), &end);
  return !word.empty() && *end == 0 ? print_value(number) : "";
}

/// "RxC" as TOML; other words as strings.
std::string block_toml(const std::string& block) {
  const size_t x = block.find('x');
  const auto digits = [](std::string_view s) {
    return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == s.npos;
  };
  if (x == std::string::npos || !digits(block.substr(0, x)) || !digits(block.substr(x + 1)))
    return toml_quote(block);
  return fmt::format("[{}, {}]", std::stoi(block.substr(0, x)), std::stoi(block.substr(x + 1)));
}

/// "A,B" as a list of TOML, one number as itself; other words as strings.
std::string numbers_toml(const std::string& words) {
  std::string list;
  for (const std::string& word : split_at_commas(words)) {
    const std::string number = number_text(word);
    if (number.empty()) return toml_quote(words);
    list += (list.empty() ? "" : ", ") + number;
  }
  return list.find(',') == std::string::npos ? list : "[" + list + "]";
}

/// What each format of recipes prints for each key.
const std::vector<std::vector<std::string>>& printed_formats() {
  static const std::vector<std::vector<std::string>> all = [] {
    std::vector<std::vector<std::string>> texts;
    for (const std::string_view name : operand_names()) {
      const Operand format = operand_of(name);
      std::vector<std::string>& text = texts.emplace_back();
      for (const OperandKey& key : operand_keys()) text.push_back(key.print(format));
    }
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

const std::vector<OperandKey>& operand_keys() {
  static const std::vector<OperandKey> keys = [] {
    std::vector<OperandKey> all = {format_key(), element_key(), block_key(), scale_key(),
                                   tensor_scale_key()};
    add_delayed_keys(all);
    all.push_back(scale_rule_key());
    add_fit_keys(all);
    add_rounding_keys(all);
    return all;
  }();
  return keys;
}

std::vector<const OperandKey*> cast_flags() {
  std::vector<const OperandKey*> flags;
  for (const OperandKey& key : operand_keys())
    if (key.flag.place > 0) flags.push_back(&key);
  std::sort(flags.begin(), flags.end(),
            [](const OperandKey* a, const OperandKey* b) { return a->flag.place < b->flag.place; });
  return flags;
}

std::string word_of(const OperandKey& key, const Operand& operand) {
  if (key.kind == Kind::block) return text_of(operand.block);
  std::string word;
  for (const char c : key.print(operand))
    if (c != '"' && c != '[' && c != ']' && c != ' ') word += c;
  return word;
}

std::string toml_of(const OperandKey& key, const std::string& word) {
  switch (key.kind) {
    case Kind::name:
      return toml_quote(word);
    case Kind::block:
      return block_toml(word);
    case Kind::numbers:
      return numbers_toml(word);
    default: {
      const std::string number = number_text(word);
      return number.empty() ? toml_quote(word) : number;
    }
  }
}

std::vector<const OperandKey*> differences(const Operand& operand, const Operand& from) {
  std::vector<std::string> printed;
  for (const OperandKey& key : operand_keys()) printed.push_back(key.print(from));
  return differences(operand, printed);
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
  Operand read = operand;
  for (const OperandKey* key : differences(operand, operand_of("fp32"))) {
    if (key->kind == Kind::name || key->kind == Kind::block) continue;
    const toml::table table = parse_toml(key->path + " = " + key->print(operand), "");
    key->read(read, *find_item(table, key->path, ""));
  }
}

void forget_unused(Operand& operand) {
  for (const OperandKey& key : operand_keys())
    if (!key.has_effect(operand)) key.need.forget_key(operand);
}

}  // namespace ng
