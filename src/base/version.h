// Which program this is, for whoever reads its files.
#pragma once

#include <string_view>

namespace ng {

/// "0.1.0"
[[nodiscard]] std::string_view version();
/// "g++ 12.2.0"
[[nodiscard]] std::string_view compiler();

}  // namespace ng
