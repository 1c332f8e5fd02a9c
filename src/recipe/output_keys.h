// What a GEMM's result is rounded to, as TOML: a word, or an operand. [recipes.md §7; rivals.md
// §2.9]
#pragma once

#include <string>

#include "base/toml.h"
#include "recipe/settings.h"

namespace ng {

/// A table without `format` changes the operand that was there.
void read_output(OutputNumbers& output, const TomlItem& item);
/// The TOML that reads back as this.
[[nodiscard]] std::string print_output(const OutputNumbers& output);

}  // namespace ng
