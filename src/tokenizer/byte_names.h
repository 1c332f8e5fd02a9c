// The visible characters by which tokenizers of bytes name them. [openai/gpt-2, bytes_to_unicode]
#pragma once

#include <array>
#include <string>

namespace ng {

/// By byte: itself where it is visible in Latin-1, else the next of U+0100, U+0101, ... in UTF-8.
[[nodiscard]] const std::array<std::string, 256>& byte_names();

}  // namespace ng
