// THE TABLE: every element format the project knows, one row each. Ranges, decode tables,
// encoders, names, sizes, documentation and command-line help derive from these rows.
#pragma once

#include <narrowgauge/types.h>

#include <span>
#include <string_view>

namespace ng {

using narrowgauge::ElementKind;
using narrowgauge::Specials;

/// One element format. [formats.md §1.1, §1.2]
struct ElementFormat {
  std::string_view name;        ///< as in ml_dtypes, unique
  std::string_view short_name;  ///< as in recipes: "e4m3"
  ElementKind kind;
  bool is_signed;
  int bits;           ///< of a code, sign included
  int exponent_bits;  ///< x
  int mantissa_bits;  ///< y; for integers: values are i·2^-y
  int bias;
  Specials specials;
  std::string_view safetensors;  ///< dtype string in safetensors, empty where it has none

  friend bool operator==(const ElementFormat& a, const ElementFormat& b) {
    return a.name == b.name;
  }
};

/// The rows of FP32 and BF16, in which a backend computes and keeps what it computes with.
[[nodiscard]] const ElementFormat& fp32_format();
[[nodiscard]] const ElementFormat& bf16_format();

/// All rows, in the order of formats.md §1.2.
[[nodiscard]] std::span<const ElementFormat> element_formats();

/// By full or short name, of the table or made up (format/exmy.h); null where it is neither. Throws
/// Error where it is made up of bits that make no format.
[[nodiscard]] const ElementFormat* find_element_format(std::string_view name);

/// The same; throws Error naming the nearest known one.
[[nodiscard]] const ElementFormat& element_format(std::string_view name);

}  // namespace ng
