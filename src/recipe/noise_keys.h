// The keys of weight_noise, a part of settings_keys().
#pragma once

#include "base/keys.h"
#include "recipe/settings.h"

namespace ng {

inline constexpr const char* kNoiseCast = "weight_noise.cast";
/// The operand that this key has for a value; null where it says "fp32", "bf16" or "table".
[[nodiscard]] const Operand* narrow_noise_cast(const RecipeSettings& settings);

[[nodiscard]] Keys<RecipeSettings> weight_noise_keys();

}  // namespace ng
