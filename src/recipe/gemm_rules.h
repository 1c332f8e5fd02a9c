// What the operands of a GEMM may say beside its transform.
#pragma once

#include <string>

#include "recipe/settings.h"

namespace ng {

/// Throws Error, with `place` for the file, where an operand does not go with its GEMM's transform.
void check_gemms(const RecipeSettings& settings, const std::string& place);

}  // namespace ng
