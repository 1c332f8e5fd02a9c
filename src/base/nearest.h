// "Did you mean": the known name closest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ng {

/// Number of single-character insertions, deletions, replacements and swaps of neighbours that turn
/// `a` into `b` (optimal string alignment distance), ASCII case ignored.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the least edit distance to `name`, the first of equals; empty when there are
/// no candidates.
[[nodiscard]] std::string_view nearest(std::string_view name,
                                       std::span<const std::string_view> candidates);

/// `did you mean "mxfp4"? ` with the nearest candidate where `name` looks like a slip for it (at
/// most a third of the letters differ, or one), else nothing.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> candidates);
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string> candidates);

}  // namespace ng
