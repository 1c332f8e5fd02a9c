// What the keys of an operand may say together.
#pragma once

#include "base/toml.h"
#include "format/operand.h"

namespace ng {

/// Throws Error at the key that does not go with the others. `item` is what the operand was read
/// from: a format name or a table.
void check_operand(const Operand& operand, const TomlItem& item);

}  // namespace ng
