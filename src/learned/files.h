// The folder that learned formats are written to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ng {

inline constexpr std::string_view kLearnedRecipeFile = "recipe.toml";

[[nodiscard]] std::string learned_recipe_path(const std::string& out);

/// Throws Error where `out` is there and holds anything but learned formats.
void require_own_learned(const std::string& out);

/// What recipe.toml begins with.
[[nodiscard]] std::string learned_recipe_comment(const std::string& run, int64_t step,
                                                 int least_bits);

}  // namespace ng
