// JSON as Python's json.dumps(..., ensure_ascii=False) writes it, which is what `tojson` of chat
// templates is.
#pragma once

#include <string>

#include "base/json_fwd.h"

namespace ng {

/// ", " and ": " between values; members in their order; numbers that are no integers as Python
/// shows them.
[[nodiscard]] std::string python_json(const OrderedJson& value);

}  // namespace ng
