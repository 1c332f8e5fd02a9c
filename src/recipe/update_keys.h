// The keys of `weights` whose values are more than a word of a list.
#pragma once

#include "base/keys.h"
#include "recipe/settings.h"

namespace ng {

/// One rule, or a list of momentum_feedback with nearest or stochastic.
[[nodiscard]] Key<RecipeSettings> weights_update_key();
[[nodiscard]] Key<RecipeSettings> residual_bits_key();

}  // namespace ng
