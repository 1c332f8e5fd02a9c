#include "format/table.h"

#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "format/exmy.h"

namespace ng {
namespace {

using enum ElementKind;
using Row = ElementFormat;

// clang-format off
constexpr std::array kFormats = {
    // name, short name, kind, signed, bits, x, y, bias, specials, safetensors
    Row{"float32", "fp32", floating, true, 32, 8, 23, 127, Specials::ieee, "F32"},
    Row{"float16", "fp16", floating, true, 16, 5, 10, 15, Specials::ieee, "F16"},
    Row{"bfloat16", "bf16", floating, true, 16, 8, 7, 127, Specials::ieee, "BF16"},
    Row{"float8_e5m2", "e5m2", floating, true, 8, 5, 2, 15, Specials::ieee, "F8_E5M2"},
    Row{"float8_e4m3fn", "e4m3", floating, true, 8, 4, 3, 7, Specials::fn, "F8_E4M3"},
    Row{"float8_e4m3", "e4m3_ieee", floating, true, 8, 4, 3, 7, Specials::ieee, ""},
    Row{"float8_e3m4", "e3m4", floating, true, 8, 3, 4, 3, Specials::ieee, ""},
    Row{"float8_e4m3fnuz", "e4m3fnuz", floating, true, 8, 4, 3, 8, Specials::fnuz, "F8_E4M3FNUZ"},
    Row{"float8_e5m2fnuz", "e5m2fnuz", floating, true, 8, 5, 2, 16, Specials::fnuz, "F8_E5M2FNUZ"},
    Row{"float8_e4m3b11fnuz", "e4m3b11fnuz", floating, true, 8, 4, 3, 11, Specials::fnuz, ""},
    Row{"float6_e3m2fn", "e3m2", floating, true, 6, 3, 2, 3, Specials::none, "F6_E3M2"},
    Row{"float6_e2m3fn", "e2m3", floating, true, 6, 2, 3, 1, Specials::none, "F6_E2M3"},
    Row{"float4_e2m1fn", "e2m1", floating, true, 4, 2, 1, 1, Specials::none, "F4"},
    Row{"float8_e8m0fnu", "e8m0", power, false, 8, 8, 0, 127, Specials::fn, "F8_E8M0"},
    Row{"ue4m3", "ue4m3", floating, false, 8, 4, 3, 7, Specials::fn, "F8_E4M3"},
    Row{"int8", "int8", integer, true, 8, 0, 0, 0, Specials::none, "I8"},
    Row{"uint8", "uint8", integer, false, 8, 0, 0, 0, Specials::none, "U8"},
    Row{"int4", "int4", integer, true, 4, 0, 0, 0, Specials::none, "U8"},
    Row{"uint4", "uint4", integer, false, 4, 0, 0, 0, Specials::none, "U8"},
    Row{"ternary", "ternary", integer, true, 2, 0, 0, 0, Specials::none, "U8"},
    Row{"mxint8", "mxint8", integer, true, 8, 0, 6, 0, Specials::none, "U8"},
};
// clang-format on

constexpr auto kNames = [] {
  std::array<std::string_view, 2 * kFormats.size()> names;
  for (size_t i = 0; i < kFormats.size(); ++i) {
    names[i] = kFormats[i].short_name;
    names[kFormats.size() + i] = kFormats[i].name;
  }
  return names;
}();

}  // namespace

const ElementFormat& fp32_format() { return kFormats[0]; }
const ElementFormat& bf16_format() { return kFormats[2]; }

std::span<const ElementFormat> element_formats() { return kFormats; }

const ElementFormat* find_element_format(std::string_view name) {
  for (const ElementFormat& format : kFormats)
    if (name == format.name || name == format.short_name) return &format;
  return exmy_format(name);
}

const ElementFormat& element_format(std::string_view name) {
  if (const ElementFormat* format = find_element_format(name)) return *format;
  throw Error({.place = {},
               .key = {},
               .problem = fmt::format("unknown element format \"{}\"", name),
               .remedy = fmt::format("{}narrowgauge formats lists all, and there is {}",
                                     did_you_mean(name, kNames), kExmyNames)});
}

}  // namespace ng
