// Numbers that JSON does not have.
#pragma once

#include "base/json_fwd.h"

namespace ng {

/// A number, or "nan", "inf", "-inf".
[[nodiscard]] Json json_number(double value);

}  // namespace ng
