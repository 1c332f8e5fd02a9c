// The keys of weight_noise, a part of settings_keys().
#pragma once

#include "base/keys.h"
#include "recipe/settings.h"

namespace ng {

[[nodiscard]] Keys<RecipeSettings> weight_noise_keys();

}  // namespace ng
