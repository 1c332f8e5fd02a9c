// Which library this is.
#pragma once

#include <string_view>

#include "narrowgauge/export.h"

namespace narrowgauge {

/// "0.1.0"
[[nodiscard]] NARROWGAUGE_API std::string_view version() noexcept;

}  // namespace narrowgauge
