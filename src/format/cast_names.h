// What casts call by one name: the formats of operands, also by the full names of their elements,
// and affine integers, which no GEMM takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/operand.h"

namespace ng {

/// One of operand_names(): an element with its scales.
[[nodiscard]] bool is_operand_name(std::string_view name);

/// An element format by full or short name, or made up as eXmY; throws Error naming the nearest of
/// all formats.
[[nodiscard]] const ElementFormat& known_element(const std::string& name);

/// The name among operand_names() that `name` means: itself, or the short name of an element that
/// is a format without scale ("bfloat16" means "bf16"). Empty where there is none.
[[nodiscard]] std::string_view preset_name(std::string_view name);

/// The cast of a name: of preset_name(), or for "uint8" and "uint4" an affine one with a scale and
/// a zero point for each row. Empty where it is none of these.
[[nodiscard]] std::optional<Operand> find_cast(std::string_view name);

/// operand_names(), then "uint8" and "uint4".
[[nodiscard]] std::vector<std::string_view> cast_names();

/// Unsigned integers. [formats.md §6]
[[nodiscard]] bool is_affine_element(const ElementFormat& element);

}  // namespace ng
