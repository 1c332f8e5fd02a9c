#include "recipe/operand_keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "format/exmy.h"
#include "recipe/operand_names.h"
#include "recipe/operand_rules.h"

namespace ng {
namespace {

/// Blocks are powers of two, so that the padded length (lcm of blocks and Hadamard) stays small.
constexpr int kMinBlockCols = 16;
constexpr int kMaxBlock = 128;
constexpr std::string_view kBlockExpected =
    "\"tensor\", \"row\" or [r, c] with r in 1, 2, 4 ... 128 and c in 16, 32, 64, 128";

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Formats that values can be written in: signed, and not only powers of two.
bool is_for_operands(const ElementFormat& format) {
  return format.is_signed && format.kind != ElementKind::power;
}

std::vector<std::string_view> element_names() {
  std::vector<std::string_view> names;
  for (const ElementFormat& format : element_formats())
    if (is_for_operands(format)) names.push_back(format.short_name);
  return names;
}

/// Text must be one of many names: says which is near.
const std::string& read_name(const TomlItem& item, std::span<const std::string_view> names) {
  if (!item.value->is_string()) item.refuse_value(one_of(names));
  const std::string& name = item.value->as_string()->get();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string shown = name.substr(0, 60);
    item.refuse("unknown " + toml_quote(shown),
                did_you_mean(shown, names) + "known: " + one_of(names));
  }
  return name;
}

Key<Operand> format_key() {
  return {
      {.path = "format",
       .expected = one_of(operand_names()),
       .doc = "sets all other keys of the operand to what the format stands for"},
      [](Operand& o, const TomlItem& item) { o = operand_of(read_name(item, operand_names())); },
      [](const Operand&) { return std::string(); }};
}

/// One of element_names(), a full name, or bits that the user names.
const ElementFormat& read_element(const TomlItem& item) {
  const ElementFormat* element = nullptr;
  try {
    if (item.value->is_string()) element = find_element_format(item.value->as_string()->get());
  } catch (const Error& error) {
    item.refuse(error.parts().problem, error.parts().remedy);
  }
  if (element != nullptr && is_for_operands(*element)) return *element;
  return element_format(read_name(item, element_names()));
}

Key<Operand> element_key() {
  return {{.path = "element",
           .expected = fmt::format("{}, or any {}", one_of(element_names()), kExmyNames),
           .doc = "format of one value"},
          [](Operand& o, const TomlItem& item) { o.element = &read_element(item); },
          [](const Operand& o) { return toml_quote(o.element->short_name); }};
}

Key<Operand> block_key() {
  return {{.path = "block",
           .expected = std::string(kBlockExpected),
           .doc = "values that share a scale; c runs along the reduction dimension"},
          [](Operand& o, const TomlItem& item) { o.block = read_block(item); },
          [](const Operand& o) { return print_block(o.block); }};
}

/// The rule belongs to the scale: a new scale starts with its own default.
Key<Operand> scale_key() {
  Key<Operand> key = choice_key<Operand>(
      "scale", [](auto& o) -> auto& { return o.scale; }, kScaleKinds,
      "what a block's scale is written in");
  key.read = [read = key.read](Operand& o, const TomlItem& item) {
    read(o, item);
    o.scale_rule = o.scale == ScaleKind::e4m3 ? ScaleRule::nearest : ScaleRule::floor;
  };
  return key;
}

Key<Operand> sr_bits_key() {
  return {
      {.path = "sr_bits", .expected = "16, 8 or 32", .doc = "random bits of a stochastic rounding"},
      [](Operand& o, const TomlItem& item) {
        const int64_t bits = item.value->is_integer() ? item.value->as_integer()->get() : 0;
        if (bits != 8 && bits != 16 && bits != 32) item.refuse_value("16, 8 or 32");
        o.sr_bits = int(bits);
      },
      [](const Operand& o) { return print_value(int64_t{o.sr_bits}); }};
}

template <class Enum, class Get>
Key<Operand> choice(std::string path, Get get, Choices<Enum> choices, std::string doc) {
  return choice_key<Operand>(std::move(path), get, std::move(choices), std::move(doc));
}

void add_scaling_keys(Keys<Operand>& keys) {
  keys.push_back(choice(
      "tensor_scale", [](auto& o) -> auto& { return o.tensor_scale; }, kTensorScales,
      "second scale, of the whole tensor, above e4m3 scales"));
  keys.push_back(choice(
      "scaling", [](auto& o) -> auto& { return o.scaling; },
      Choices<Scaling>{{{"current", Scaling::current}, {"delayed", Scaling::delayed}}},
      "scale from this tensor, or from the history of earlier steps"));
  keys.push_back(integer_key<Operand>(
      "amax_history", [](auto& o) -> auto& { return o.amax_history; }, {1, 65536},
      "steps that delayed scaling looks back"));
  keys.push_back(choice(
      "amax_compute", [](auto& o) -> auto& { return o.amax_compute; },
      Choices<AmaxCompute>{{{"max", AmaxCompute::max}, {"most_recent", AmaxCompute::most_recent}}},
      "which amax of the history delayed scaling uses"));
  keys.push_back(integer_key<Operand>(
      "margin", [](auto& o) -> auto& { return o.margin; }, {0, 32},
      "binades that delayed scaling leaves free at the top"));
  keys.push_back(choice(
      "scale_rule", [](auto& o) -> auto& { return o.scale_rule; }, kScaleRules,
      "how an e8m0 scale (floor ... mse) or an e4m3 scale (nearest, up) is "
      "rounded"));
}

void add_rounding_keys(Keys<Operand>& keys) {
  keys.push_back(choice(
      "rounding", [](auto& o) -> auto& { return o.rounding; },
      Choices<Rounding>{{{"nearest", Rounding::nearest}, {"stochastic", Rounding::stochastic}}},
      "of each element"));
  keys.push_back(sr_bits_key());
  keys.push_back(choice(
      "overflow", [](auto& o) -> auto& { return o.overflow; },
      Choices<Overflow>{{{"saturate", Overflow::saturate}, {"special", Overflow::special}}},
      "what becomes of values beyond the largest: it, or infinity or NaN"));
  keys.push_back(number_key<Operand>(
      "prescale", [](auto& o) -> auto& { return o.prescale; }, {0x1p-16, 0x1p16},
      "multiplies each value after its scale was chosen; undone at "
      "the end of the GEMM"));
}

/// Keys without effect take their default, so that equal casts are equal operands.
void forget_unused(Operand& operand) {
  const Operand defaults;
  if (operand.rounding == Rounding::nearest) operand.sr_bits = defaults.sr_bits;
  if (operand.scaling == Scaling::delayed) return;
  operand.amax_history = defaults.amax_history;
  operand.amax_compute = defaults.amax_compute;
  operand.margin = defaults.margin;
}

/// What overflows stays infinite in BF16, whose range is FP32's: another element in its place
/// starts by saturating, as all other formats do.
void leave_bf16(Operand& operand, const toml::table& table, const std::string& prefix) {
  const ElementFormat& bf16 = element_format("bf16");
  const auto item = find_item(table, "element", prefix);
  if (item && *operand.element == bf16 && !(read_element(*item) == bf16))
    operand.overflow = Operand{}.overflow;
}

/// The keys in which two operands differ, as inline-table text; `count` is set to their number.
std::string differences(const Operand& operand, const Operand& from, size_t& count) {
  std::string text;
  count = 0;
  for (const Key<Operand>& key : operand_keys()) {
    const std::string value = key.print(operand);
    if (value == key.print(from)) continue;
    text += ", " + key.path + " = " + value;
    ++count;
  }
  return text;
}

}  // namespace

const Keys<Operand>& operand_keys() {
  static const Keys<Operand> keys = [] {
    Keys<Operand> all = {format_key(), element_key(), block_key(), scale_key()};
    add_scaling_keys(all);
    add_rounding_keys(all);
    return all;
  }();
  return keys;
}

void read_operand(Operand& operand, const TomlItem& item) {
  change_operand(operand, item);
  check_operand(operand, item);
}

void change_operand(Operand& operand, const TomlItem& item) {
  const toml::table* table = item.value->as_table();
  if (table == nullptr) {
    operand = operand_of(read_name(item, operand_names()));
    return;
  }
  const std::string prefix = item.path + ".";
  check_known_keys(*table, rows_of(operand_keys()), prefix);
  const bool replaces = table->contains("format");
  if (!replaces) leave_bf16(operand, *table, prefix);
  read_keys(operand, *table, operand_keys(), prefix);
  if (replaces) check_operand(operand, item);
  forget_unused(operand);
}

std::string print_operand(const Operand& operand) {
  std::string_view best_name;
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string_view name : operand_names()) {
    size_t count = 0;
    std::string text = differences(operand, operand_of(name), count);
    if (count >= least) continue;
    least = count;
    best_name = name;
    best = std::move(text);
  }
  if (least == 0) return toml_quote(best_name);
  return "{format = " + toml_quote(best_name) + best + "}";
}

std::string print_without_format(const Operand& operand) {
  size_t count = 0;
  const std::string text = differences(operand, operand_of("fp32"), count);
  constexpr size_t kComma = 2;  // each difference begins with ", "
  return fmt::format("{{{}}}", std::string_view(text).substr(count == 0 ? 0 : kComma));
}

Block read_block(const TomlItem& item) {
  const std::string expected(kBlockExpected);
  if (item.value->is_string()) {
    const std::string& name = item.value->as_string()->get();
    if (name == "tensor") return {.kind = Block::Kind::tensor};
    if (name == "row") return {.kind = Block::Kind::row};
    item.refuse_value(expected);
  }
  const toml::array* array = item.value->as_array();
  if (array == nullptr || array->size() != 2 || !array->get(0)->is_integer() ||
      !array->get(1)->is_integer())
    item.refuse_value(expected);
  const int64_t rows = array->get(0)->as_integer()->get();
  const int64_t cols = array->get(1)->as_integer()->get();
  if (!is_power_of_two(rows) || rows > kMaxBlock || !is_power_of_two(cols) ||
      cols < kMinBlockCols || cols > kMaxBlock)
    item.refuse_value(expected);
  return {.kind = Block::Kind::tile, .rows = int(rows), .cols = int(cols)};
}

std::string print_block(const Block& block) {
  switch (block.kind) {
    case Block::Kind::tensor:
      return "\"tensor\"";
    case Block::Kind::row:
      return "\"row\"";
    case Block::Kind::tile:
      return fmt::format("[{}, {}]", block.rows, block.cols);
  }
  return "";
}

}  // namespace ng
