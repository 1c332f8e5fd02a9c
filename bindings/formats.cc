// Elements and formats, by the classes of the C++ library and the words of the program.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <narrowgauge/formats.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "bind.h"
#include "format/cast_names.h"
#include "format/codec.h"
#include "format/operand_table.h"
#include "library/access.h"
#include "math/round_to_odd.h"
#include "recipe/cast_words.h"

namespace ng::python {
namespace {

using PublicFormat = narrowgauge::Format;
using Element = narrowgauge::Element;
using Kind = OperandKeyUse::Kind;

const char* name_of_kind(const Element& element) {
  constexpr const char* kNames[] = {"floating", "power", "integer"};
  return kNames[static_cast<size_t>(element.kind())];
}

const char* name_of_specials(const Element& element) {
  constexpr const char* kNames[] = {"ieee", "fn", "fnuz", "none"};
  return kNames[static_cast<size_t>(element.specials())];
}

/// How one value is rounded; `random` names the draw of stochastic rounding.
struct Words {
  std::string rounding, overflow;
  int random_bits = 16;
  uint32_t random = 0;

  [[nodiscard]] narrowgauge::ValueRounding how() const {
    require_word("rounding", rounding, {"nearest", "stochastic"});
    const bool stochastic = rounding == "stochastic";
    return {stochastic ? narrowgauge::Rounding::stochastic : narrowgauge::Rounding::nearest,
            random_bits, random};
  }
};

narrowgauge::Overflow overflow_of(const std::string& word) {
  require_word("overflow", word, {"saturate", "special"});
  return word == "special" ? narrowgauge::Overflow::special : narrowgauge::Overflow::saturate;
}

uint32_t uint32_of(const char* key, int64_t number) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (number >= 0 && number <= kMost) return static_cast<uint32_t>(number);
  throw Error({.place = "",
               .key = key,
               .problem = std::to_string(number),
               .remedy = fmt::format("0 to {}", kMost)});
}

/// FP64 is rounded once: it goes to at most 16 bits by way of an odd FP32.
uint32_t encode(const Element& element, double value, const Words& words) {
  const float x = element.bits() <= 16 ? rounded_to_odd(value) : static_cast<float>(value);
  return element.encode(x, words.how(), overflow_of(words.overflow));
}

/// Fields as words of a command line; the prescale is no flag.
using FieldWords = std::map<std::string, std::string>;

PublicFormat make_format(const std::string& name, const FieldWords& fields, float prescale) {
  CastWords words{.format = name};
  for (const OperandKey* key : cast_flags()) {
    const auto field = fields.find(std::string(key->field));
    if (field == fields.end() || field->second.empty()) continue;
    words.words[key->path] = field->second;
    if (key->kind == Kind::name && key->flag.names_values)
      require_word(key->path.c_str(), field->second, key->values);
  }
  return as_call([&] {
    PublicFormat format = narrowgauge::format_of(words.operand());
    format.prescale = prescale;
    narrowgauge::check(format);
    return format;
  });
}

/// What quantize takes: the format of these elements, scales and, if there is one, blocks; else
/// that of the element.
std::string_view name_of_format(const PublicFormat& format) {
  const Operand operand = operand_of(format);
  std::string_view nearest = operand.element->name;
  for (const std::string_view name : cast_names()) {
    const Operand known = *find_cast(name);
    if (known.element != operand.element || known.scale != operand.scale ||
        known.tensor_scale != operand.tensor_scale)
      continue;
    nearest = name;
    if (known.block == operand.block) break;
  }
  return nearest;
}

std::string text_of(const PublicFormat& format) {
  const std::string_view name = name_of_format(format);
  const bool is_plain = operand_of(format).is_unscaled() && preset_name(name).empty();
  return is_plain ? std::string(name) : narrowgauge::describe(format);
}

void add_elements(nb::module_& module) {
  nb::class_<Element>(module, "Element", "The format of single numbers.")
      .def(nb::init<std::string_view>(), "name"_a)
      .def_prop_ro("name", &Element::name, "as in ml_dtypes, unique")
      .def_prop_ro("short_name", &Element::short_name)
      .def_prop_ro("kind", name_of_kind, "\"floating\", \"power\" or \"integer\"")
      .def_prop_ro("specials", name_of_specials,
                   "which codes are no numbers: \"ieee\", \"fn\", \"fnuz\" or \"none\"")
      .def_prop_ro("is_signed", &Element::is_signed)
      .def_prop_ro("bits", &Element::bits, "of a code, sign included")
      .def_prop_ro("exponent_bits", &Element::exponent_bits)
      .def_prop_ro("mantissa_bits", &Element::mantissa_bits)
      .def_prop_ro("bias", &Element::bias)
      .def_prop_ro("max", &Element::max, "the largest finite value that is made")
      .def_prop_ro("min_normal", &Element::min_normal, "infinity where there is none")
      .def_prop_ro("min_subnormal", &Element::min_subnormal)
      .def_prop_ro("code_count", &Element::code_count)
      .def(
          "encode",
          [](const Element& element, double value, const std::string& rounding, int random_bits,
             int64_t random, const std::string& overflow) {
            const uint32_t draw = uint32_of("random", random);
            return encode(element, value, {rounding, overflow, random_bits, draw});
          },
          "value"_a, nb::kw_only(), "rounding"_a = "nearest", "random_bits"_a = 16, "random"_a = 0,
          "overflow"_a = "saturate",
          "The code of a value, rounded once: up where rounding is \"stochastic\" iff its place\n"
          "between two neighbours, in units of 2^-random_bits, and `random` are at least one.")
      .def(
          "decode",
          [](const Element& element, int64_t code) {
            return element.decode(uint32_of("code", code));
          },
          "code"_a, "The value of a code, exact.")
      .def("__eq__", [](const Element& a, const Element& b) { return a == b; })
      .def("__eq__", [](const Element&, nb::handle) { return false; })
      .def("__hash__", [](const Element& e) { return std::hash<std::string_view>()(e.name()); })
      .def("__repr__",
           [](const Element& e) { return fmt::format("<narrowgauge.Element {}>", e.name()); })
      .def(
          "values",
          [](const Element& element) {
            std::vector<float> values = element.values();
            const size_t count = values.size();
            return array_of(std::move(values), {count});
          },
          "The values of all codes, in their order; of an element of at most 16 bits.");
}

/// Whatever the process' locale has for a point.
float number_of(const std::string& word) {
  float number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  NG_CHECK(error == std::errc{} && end == word.data() + word.size(), word);
  return number;
}

/// A property of a format, typed by its kind.
void add_field(nb::class_<PublicFormat>& format, const OperandKey& key) {
  const auto word = [&key](const PublicFormat& f) { return word_of(key, operand_of(f)); };
  const std::string name(key.field);
  switch (key.kind) {
    case Kind::integer:
      format.def_prop_ro(
          name.c_str(), [word](const PublicFormat& f) { return std::stoi(word(f)); },
          key.doc.c_str());
      return;
    case Kind::number:
      format.def_prop_ro(
          name.c_str(), [word](const PublicFormat& f) { return number_of(word(f)); },
          key.doc.c_str());
      return;
    case Kind::numbers:
      format.def_prop_ro(
          name.c_str(),
          [word](const PublicFormat& f) {
            std::vector<float> numbers;
            for (const std::string& number : split_at_commas(word(f)))
              if (!number.empty()) numbers.push_back(number_of(number));
            return numbers;
          },
          key.doc.c_str());
      return;
    default:
      format.def_prop_ro(name.c_str(), word, key.doc.c_str());
  }
}

/// By name: the kind of value that a keyword takes, and what it means.
std::map<std::string, std::pair<std::string, std::string>> format_fields() {
  constexpr const char* kKinds[] = {"text", "whole", "real", "block", "reals"};
  std::map<std::string, std::pair<std::string, std::string>> fields;
  for (const OperandKey& key : operand_keys())
    if (!key.field.empty() && key.path != "element")
      fields[std::string(key.field)] = {kKinds[static_cast<size_t>(key.kind)], key.doc};
  return fields;
}

}  // namespace

void add_formats(nb::module_& module) {
  add_elements(module);
  nb::class_<PublicFormat> format(module, "Format", "How a matrix is written as narrow numbers.");
  for (const OperandKey& key : operand_keys())
    if (!key.field.empty() && key.path != "element") add_field(format, key);
  format.def_prop_ro("name", name_of_format, "that of the nearest format that has one")
      .def_prop_ro("element", [](const PublicFormat& f) { return f.element; })
      .def_prop_ro("bits_per_value", narrowgauge::bits_per_value,
                   "scales of blocks included, those of tensors and rows not")
      .def("__repr__",
           [](const PublicFormat& f) { return fmt::format("<narrowgauge.Format {}>", text_of(f)); })
      .def("__eq__", [](const PublicFormat& a, const PublicFormat& b) { return a == b; })
      .def("__eq__", [](const PublicFormat&, nb::handle) { return false; })
      .def("__hash__", [](const PublicFormat& f) {
        return std::hash<std::string>()(narrowgauge::describe(f));
      });
  module.def("format", make_format, "name"_a, "fields"_a, "prescale"_a = 1.0f);
  module.def("format_fields", format_fields,
             "What a format may be changed in, with how it is said and what it means.");
  module.def("format_names", cast_names);
  module.def("element_names", [] {
    std::vector<std::string_view> names;
    for (const ElementFormat& element : element_formats()) names.push_back(element.name);
    return names;
  });
}

}  // namespace ng::python
