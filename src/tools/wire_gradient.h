// A gradient of host memory as ranks send it, for those who reduce one tensor by itself.
#pragma once

#include <cstdint>
#include <span>

#include "backend/update_operations.h"
#include "recipe/settings.h"
#include "run/transfer.h"

namespace ng {

/// StoreGradient of rows · cols values into `wire`. `key`: of the tensor, the step and the first
/// micro-batch of this rank. `amax`: the largest magnitude of all ranks, of which a scale that they
/// share is made.
void store_for_wire(Backend& backend, std::span<const float> gradient, const RandomKey& key,
                    const AutoScale& scale, float amax, const Stored& wire);

/// The auto scale behind a step: `saturated` of `values` codes, or sums, were the largest. As it
/// was where the recipe has none. `good_steps` in a row were before, and are after it; 0 where it
/// counts none. [errata-2, 31, 32]
[[nodiscard]] AutoScale moved_scale(const GradientRecipe& gradient, AutoScale scale,
                                    uint64_t saturated, int64_t values, float& good_steps);

}  // namespace ng
