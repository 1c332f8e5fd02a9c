#include "format/operand_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"

namespace ng {
namespace {

constexpr int kMinBlockCols = 16;

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

bool is_for_operands(const ElementFormat& format) {
  return format.is_signed && format.kind != ElementKind::power;
}

/// "tensor", "row" or two numbers from 1 on.
Block read_shape(const TomlItem& item, std::string_view expected) {
  constexpr int64_t kMost = 65536;
  if (item.value->is_string()) {
    const std::string& name = item.value->as_string()->get();
    if (name == "tensor") return {.kind = Block::Kind::tensor};
    if (name == "row") return {.kind = Block::Kind::row};
    item.refuse_value(std::string(expected));
  }
  const toml::array* array = item.value->as_array();
  if (array == nullptr || array->size() != 2 || !array->get(0)->is_integer() ||
      !array->get(1)->is_integer())
    item.refuse_value(std::string(expected));
  const int64_t rows = array->get(0)->as_integer()->get();
  const int64_t cols = array->get(1)->as_integer()->get();
  if (rows < 1 || rows > kMost || cols < 1 || cols > kMost)
    item.refuse_value(std::string(expected));
  return {.kind = Block::Kind::tile, .rows = int(rows), .cols = int(cols)};
}

Block read_block(const TomlItem& item, int most_cols, std::string_view expected) {
  const Block block = read_shape(item, expected);
  if (block.kind == Block::Kind::tile &&
      (!is_power_of_two(block.rows) || block.rows > kMaxBlock || !is_power_of_two(block.cols) ||
       block.cols < kMinBlockCols || block.cols > most_cols))
    item.refuse_value(std::string(expected));
  return block;
}

}  // namespace

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

std::vector<std::string_view> operand_element_names() {
  std::vector<std::string_view> names;
  for (const ElementFormat& format : element_formats())
    if (is_for_operands(format)) names.push_back(format.short_name);
  return names;
}

const ElementFormat& read_element(const TomlItem& item) {
  const ElementFormat* element = nullptr;
  try {
    if (item.value->is_string()) element = find_element_format(item.value->as_string()->get());
  } catch (const Error& error) {
    item.refuse(error.parts().problem, error.parts().remedy);
  }
  if (element != nullptr && is_for_operands(*element)) return *element;
  return element_format(read_name(item, operand_element_names()));
}

Elements read_elements(const TomlItem& item) {
  const toml::array* list = item.value->as_array();
  if (list == nullptr) return {&read_element(item)};
  const auto is = [&](size_t i, std::string_view name) {
    const toml::value<std::string>* word = list->get(i)->as_string();
    return word != nullptr && word->get() == name;
  };
  if (list->size() != 2 || !is(0, "e2m1") || !is(1, "int4"))
    item.refuse_value(std::string(kElementListExpected) + ", or one element");
  return {&element_format("e2m1"), &element_format("int4")};
}

std::string print_elements(const Operand& operand) {
  const std::string first = toml_quote(operand.element->short_name);
  if (operand.other == nullptr) return first;
  return fmt::format("[{}, {}]", first, toml_quote(operand.other->short_name));
}

const std::string& read_format_name(const TomlItem& item) {
  const std::span<const std::string_view> names = operand_names();
  if (!item.value->is_string()) return read_name(item, names);
  const std::string& name = item.value->as_string()->get();
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  const ElementFormat* element = nullptr;
  try {
    element = find_element_format(name);
  } catch (const Error&) {  // bits that no format has
  }
  if (element == nullptr || !is_for_operands(*element)) return read_name(item, names);
  item.refuse(
      fmt::format("{} is an element without block and scale", toml_quote(name)),
      fmt::format("{{element = {}, block = [1, 32], scale = \"e8m0\"}}, or another block and "
                  "scale; a format is one of {}",
                  toml_quote(name), one_of(names)));
}

Fits read_fits(const TomlItem& item) {
  Fits fits;
  const auto add = [&](const toml::node& node) {
    const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !(*value >= 0x1p-16 && *value <= 0x1p16) || fits.size() == Fits::kMost)
      item.refuse_value(std::string(kFitsExpected));
    fits.push_back(static_cast<float>(*value));
  };
  const toml::array* list = item.value->as_array();
  if (list == nullptr) {
    add(*item.value);
    return fits;
  }
  if (list->empty()) item.refuse_value(std::string(kFitsExpected));
  for (const toml::node& node : *list) add(node);
  return fits;
}

std::string print_fits(const Fits& fits) {
  const std::string numbers = fmt::format("{}", fmt::join(fits, ", "));
  return fits.size() < 2 ? numbers : "[" + numbers + "]";
}

Block read_block(const TomlItem& item) { return read_block(item, kMaxBlock, kBlockExpected); }

Block read_operand_block(const TomlItem& item) {
  return read_block(item, kMaxStateBlock, kOperandBlockExpected);
}

Block read_tensor_block(const TomlItem& item) { return read_shape(item, kTensorBlockExpected); }

int read_random_bits(const TomlItem& item) {
  const int64_t bits = item.value->is_integer() ? item.value->as_integer()->get() : 0;
  if (bits != 8 && bits != 16 && bits != 32) item.refuse_value("16, 8 or 32");
  return static_cast<int>(bits);
}

std::string print_block(const Block& block) {
  if (block.kind != Block::Kind::tile) return toml_quote(text_of(block));
  return fmt::format("[{}, {}]", block.rows, block.cols);
}

}  // namespace ng
