// How the auto scale of a gradient begins. [recipes.md §4.2; errata-2, 32]
#pragma once

#include <cmath>

#include "backend/update_operations.h"
#include "recipe/settings.h"

namespace ng {

/// Between so many ranks. A sum on the wire begins with 1/sqrt(N): with 1 the first steps would
/// saturate.
[[nodiscard]] inline AutoScale first_auto_scale(const GradientRecipe& gradient, int ranks) {
  if (gradient.reduce == GradientRecipe::Reduce::fp32 || ranks == 1) return {};
  const auto window = static_cast<double>(gradient.growth_interval);
  const double k = std::round(-window / 2 * std::log2(ranks));
  return {.mu = static_cast<float>(std::exp2(k / window)), .k = static_cast<float>(k)};
}

}  // namespace ng
