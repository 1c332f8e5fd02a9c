// ChatML as the templates of many models write it: the same text in other words.
#pragma once

#include <string_view>

namespace ng {

/// Whether a Jinja template does what the template chatml does, with transformers' settings
/// (trim_blocks, lstrip_blocks): for each message its role and content between ChatML's markers,
/// then, where it is asked for or never, what begins the assistant's answer. Marks of white space,
/// quotes, names of the loop's variable and where texts are cut may be any. False where it says
/// anything else, or that in a way that is not seen through.
[[nodiscard]] bool is_chatml(std::string_view jinja);

}  // namespace ng
