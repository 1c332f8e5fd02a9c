// The keys of a recipe, one row each. [recipes.md §7]
#pragma once

#include "base/error.h"
#include "base/keys.h"
#include "recipe/settings.h"

namespace ng {

/// All keys of a recipe's base and of a phase. Reading them checks each value, and each operand
/// that names its format; what other operands say together depends on what they change:
/// check_operands().
[[nodiscard]] const Keys<RecipeSettings>& settings_keys();

// `patch` was read into `settings` last; `prefix` is as for read_keys().

/// Throws Error where keys of an operand that `patch` names contradict each other.
void check_operands(const RecipeSettings& settings, const toml::table& patch,
                    const std::string& prefix);

/// An Error for each operand key of `patch` that has no effect beside the others.
[[nodiscard]] std::vector<Error> unused_keys(const RecipeSettings& settings,
                                             const toml::table& patch, const std::string& prefix);

/// May an override say this key?
[[nodiscard]] bool is_override_key(std::string_view path);

/// May a phase say this key? A run can switch the numbers it computes in; what it keeps, sends and
/// updates by is laid out before its first step.
[[nodiscard]] bool is_phase_key(std::string_view path);

/// The keys whose values are not the defaults, one "path = value" a line, sorted: the same text
/// whatever other keys and names of formats there are.
[[nodiscard]] std::string differing_keys(const RecipeSettings& settings);

}  // namespace ng
