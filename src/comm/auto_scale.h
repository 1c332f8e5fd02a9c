// How the auto scale of a gradient begins. [recipes.md §4.2; errata-2, 32]
#pragma once

#include <cmath>

#include "backend/gradient_scale.h"
#include "recipe/settings.h"

namespace ng {

/// Between so many ranks. A sum on the wire begins with 1/sqrt(N), unless the recipe says 1/N
/// (pre-scaling) or 1, with which the first steps saturate.
[[nodiscard]] inline AutoScale first_auto_scale(const GradientRecipe& gradient, int ranks) {
  if (gradient.reduce == GradientRecipe::Reduce::fp32 || ranks == 1) return {};
  const auto window = static_cast<double>(gradient.growth_interval);
  if (gradient.auto_scale_start == GradientRecipe::Start::one) return {};
  const double root = gradient.auto_scale_start == GradientRecipe::Start::root ? 2 : 1;
  const double k = std::round(-window / root * std::log2(ranks));
  return auto_scale_of(k, gradient.growth_interval);
}

}  // namespace ng
