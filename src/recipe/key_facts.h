// What the tables say of the keys of recipes, operands' keys by their full paths too.
#pragma once

#include <vector>

#include "base/key_facts.h"

namespace ng {

/// Adds `facts` and, of an operand, those of every operand key below it.
void add_key_facts(std::vector<KeyFacts>& all, const KeyFacts& facts);

/// All keys of a recipe, those of operands once for each operand: linear.dgrad.grad.block.
[[nodiscard]] std::vector<KeyFacts> recipe_key_facts();

}  // namespace ng
