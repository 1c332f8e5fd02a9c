// Lists too long for a sentence.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ng {

/// The first `most`, and how many more there are: "a, b and 3 more".
[[nodiscard]] inline std::string first_of(const std::vector<std::string>& names, size_t most) {
  const size_t shown = std::min(names.size(), most);
  const std::string text = fmt::format("{}", fmt::join(names.data(), names.data() + shown, ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

}  // namespace ng
