// Patterns for names: `*` stands for any characters (dots and slashes too), `?` for one.
#pragma once

#include <string_view>

namespace ng {

/// Does the whole of `name` match? Takes at most pattern × name steps.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace ng
