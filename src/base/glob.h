// Patterns for names: `*` stands for any characters (dots and slashes too), `?` for one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// Does the whole of `name` match? Takes at most pattern × name steps.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view name);

/// Paths of the files that a pattern names as a shell reads it: `*` and `?` in any part of the path
/// stand for characters of that part alone, and for a dot at its beginning only where the part has
/// one. Sorted part by part. Throws Error for a folder that cannot be read.
[[nodiscard]] std::vector<std::string> matching_files(const std::string& pattern);

}  // namespace ng
