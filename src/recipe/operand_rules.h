// What the keys of an operand may say together.
#pragma once

#include <vector>

#include "base/error.h"
#include "base/toml.h"
#include "format/operand.h"

namespace ng {

// `item` is what the operand was read from: a format name or a table.

/// Throws Error at the key that does not go with the others.
void check_rules(const Operand& operand, const TomlItem& item);

/// An Error for each key of `item` that only means something beside one that the operand lacks.
[[nodiscard]] std::vector<Error> unused_keys(const Operand& operand, const TomlItem& item);

/// Both: throws what check_rules() throws, else the first of unused_keys().
void check_operand(const Operand& operand, const TomlItem& item);

}  // namespace ng
