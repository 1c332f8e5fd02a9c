// Which properties of an operand go together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "format/operand.h"

namespace ng {

/// A property of an operand that does not go with the others, by its name in recipes.
struct OperandConflict {
  std::string_view key;
  std::string problem;
  std::string remedy;
};

/// The first there is; `is_state`: of an optimizer's state. An element without any scale conflicts
/// with nothing: whether it may stand in a GEMM is for recipes to say. [formats.md §3.1, §4, §5,
/// §6]
[[nodiscard]] std::optional<OperandConflict> conflict_of(const Operand& operand,
                                                         bool is_state = false);

}  // namespace ng
