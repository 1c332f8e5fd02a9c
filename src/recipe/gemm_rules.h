// What the operands of a GEMM may say beside its transform, and what its output may be.
#pragma once

#include <string>

#include "recipe/settings.h"

namespace ng {

// Both throw Error, with `place` for the file:

/// where an operand does not go with its GEMM's transform, or an output cannot be stored so;
void check_gemms(const RecipeSettings& settings, const std::string& place);

/// where the head's output is an operand: it works in pieces, and a scale would be of one.
void check_head(const RecipeSettings& settings, const std::string& place);

}  // namespace ng
