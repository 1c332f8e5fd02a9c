// What casts call by one name: the formats of operands, also by the full names of their elements.
#pragma once

#include <optional>
#include <string_view>

#include "format/operand.h"

namespace ng {

/// The name among operand_names() that `name` means: itself, or the short name of an element that
/// is a format without scale ("bfloat16" means "bf16"). Empty where there is none.
[[nodiscard]] std::string_view preset_name(std::string_view name);

/// The cast of a name; empty where preset_name() is.
[[nodiscard]] std::optional<Operand> find_cast(std::string_view name);

}  // namespace ng
