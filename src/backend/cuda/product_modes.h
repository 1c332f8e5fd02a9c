// Kinds of products by matrix units, as cuBLASLt has them or not.
#pragma once

#include <vector>

#include "backend/cuda/units.h"

namespace ng::cuda {

/// Of each kind why there is none on this card, asked of the library for 4096 x 4096 x 4096.
[[nodiscard]] std::vector<ProductMode> product_modes(Units& units);

}  // namespace ng::cuda
