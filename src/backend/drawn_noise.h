// The noise of one element by the definition, drawn or given. [recipes.md §0, §1; errata-2, 2]
#pragma once

#include "backend/noise_operations.h"

namespace ng {

/// R of GaussWS and DiffQ, n of NIPQ.
[[nodiscard]] float noise_at(const NoisyWeight& of, int64_t row, int64_t col);

}  // namespace ng
