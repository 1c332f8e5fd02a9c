// Lines of JSON about texts.
#pragma once

#include <string>

#include "base/json.h"

namespace ng::cli {

/// One line of ASCII: what reads lines may take U+2028 and its like, which texts hold, for ends of
/// them. What is no UTF-8 becomes U+FFFD.
[[nodiscard]] inline std::string json_line(const OrderedJson& json) {
  constexpr int kOneLine = -1;
  constexpr bool kAscii = true;
  return json.dump(kOneLine, ' ', kAscii, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ng::cli
