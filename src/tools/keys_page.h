// The keys of run files and recipes: as a list, and as the page docs/keys.md.
#pragma once

#include <string>
#include <vector>

#include "base/key_facts.h"

namespace ng {

/// Those of the run file, then those of recipes, in the order in which they are read.
[[nodiscard]] std::vector<KeyFacts> all_key_facts();

/// Without the keys below operands, of which there are hundreds.
[[nodiscard]] std::vector<KeyFacts> without_operands_keys(const std::vector<KeyFacts>& all);

/// docs/keys.md: operands' keys stand there once, with their names in `cast` and the libraries.
[[nodiscard]] std::string keys_page();

}  // namespace ng
