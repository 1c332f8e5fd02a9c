// Texts known by name. Each is written once into the user's cache by the program that has it.
#pragma once

#include <string>
#include <string_view>

namespace ng {

[[nodiscard]] bool is_prepared_text(std::string_view name);
/// All names, separated by spaces.
[[nodiscard]] std::string prepared_text_names();

/// Path of the text, made now where it isn't there yet or not as it was made: a checksum lies
/// beside it. Throws Error saying what is missing.
std::string prepare_text(std::string_view name);

/// $XDG_CACHE_HOME/narrowgauge, else $HOME/.cache/narrowgauge. Throws Error where neither is set.
[[nodiscard]] std::string cache_folder();

}  // namespace ng
