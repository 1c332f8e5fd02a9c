// Elements and formats, by the classes of the C++ library and the words of the program.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <narrowgauge/formats.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "bind.h"
#include "format/cast_names.h"
#include "format/codec.h"
#include "format/operand_conflict.h"
#include "library/access.h"
#include "math/round_to_odd.h"
#include "recipe/cast_words.h"

namespace ng::python {
namespace {

using PublicFormat = narrowgauge::Format;
using Element = narrowgauge::Element;

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

PublicFormat make_format(const std::string& name, const std::map<std::string, nb::object>& fields) {
  CastWords words;
  words.format = name;
  float prescale = 1;
  const std::map<std::string_view, std::string*> texts = {
      {"overflow", &words.overflow},     {"rounding", &words.rounding},
      {"scale_rule", &words.scale_rule}, {"block", &words.block},
      {"scale", &words.scale},           {"tensor_scale", &words.tensor_scale}};
  for (const auto& [field, value] : fields) {
    if (const auto text = texts.find(field); text != texts.end())
      *text->second = nb::cast<std::string>(value);
    else if (field == "random_bits")
      words.sr_bits = nb::cast<int64_t>(value);
    else
      prescale = nb::cast<float>(value);
  }
  if (!words.rounding.empty()) require_word("rounding", words.rounding, {"nearest", "stochastic"});
  if (!words.overflow.empty()) require_word("overflow", words.overflow, {"saturate", "special"});
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

}  // namespace

void add_formats(nb::module_& module) {
  add_elements(module);
  nb::class_<PublicFormat>(module, "Format", "How a matrix is written as narrow numbers.")
      .def_prop_ro("name", name_of_format, "that of the nearest format that has one")
      .def_prop_ro("element", [](const PublicFormat& f) { return f.element; })
      .def_prop_ro(
          "block", [](const PublicFormat& f) { return ng::text_of(operand_of(f).block); },
          "values that share a scale: \"tensor\", \"row\" or \"1x32\"")
      .def_prop_ro("scale", [](const PublicFormat& f) { return name_of(operand_of(f).scale); })
      .def_prop_ro("tensor_scale",
                   [](const PublicFormat& f) { return name_of(operand_of(f).tensor_scale); })
      .def_prop_ro("scale_rule",
                   [](const PublicFormat& f) { return name_of(operand_of(f).scale_rule); })
      .def_prop_ro("rounding",
                   [](const PublicFormat& f) {
                     return f.rounding == narrowgauge::Rounding::stochastic ? "stochastic"
                                                                            : "nearest";
                   })
      .def_ro("random_bits", &PublicFormat::random_bits)
      .def_prop_ro("overflow",
                   [](const PublicFormat& f) {
                     return f.overflow == narrowgauge::Overflow::special ? "special" : "saturate";
                   })
      .def_ro("prescale", &PublicFormat::prescale)
      .def_prop_ro("bits_per_value", narrowgauge::bits_per_value,
                   "scales of blocks included, those of tensors and rows not")
      .def("__repr__",
           [](const PublicFormat& f) { return fmt::format("<narrowgauge.Format {}>", text_of(f)); })
      .def("__eq__", [](const PublicFormat& a, const PublicFormat& b) { return a == b; })
      .def("__eq__", [](const PublicFormat&, nb::handle) { return false; })
      .def("__hash__", [](const PublicFormat& f) {
        return std::hash<std::string>()(narrowgauge::describe(f));
      });
  module.def("format", make_format, "name"_a, "fields"_a);
  module.def("format_names", cast_names);
  module.def("element_names", [] {
    std::vector<std::string_view> names;
    for (const ElementFormat& element : element_formats()) names.push_back(element.name);
    return names;
  });
}

}  // namespace ng::python
