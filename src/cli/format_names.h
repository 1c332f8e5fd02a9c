// Names of formats on the command line: those of recipes, then those of single elements.
#pragma once

#include <string>
#include <vector>

#include "format/operand.h"

namespace ng::cli {

/// A format of operand_names(): an element with its scales.
[[nodiscard]] bool is_operand_name(std::string_view name);

/// An element format by full or short name, or made up as eXmY; throws Error naming the nearest of
/// all formats.
[[nodiscard]] const ElementFormat& known_element(const std::string& name);

}  // namespace ng::cli
