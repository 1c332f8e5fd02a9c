// Numbers as JSON has them, and those that it does not have.
#pragma once

#include "base/json_fwd.h"

namespace ng {

/// A number, or "nan", "inf", "-inf".
[[nodiscard]] Json json_number(double value);
/// What such a value was made of.
[[nodiscard]] double number_of(const Json& value);

/// The shortest decimal that reads back as the same float: 0.1 for 0.1f.
[[nodiscard]] double shortest_decimal(float value);

}  // namespace ng
