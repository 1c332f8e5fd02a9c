// Subnormal elements to zero, in a pass of its own: the encoders of what keeps them stay as they
// are.
#pragma once

#include "backend/cpu/quantize/kernels.h"

namespace ng::cpu {

/// Zeros in place of the subnormal elements of a tile that encode_tile has made, with their signs
/// where the element has both zeros; how many there were, but for padding. For Kind::small grids.
[[nodiscard]] uint64_t flush_subnormals(const ElementGrid& grid, const EncodeTile& tile);

}  // namespace ng::cpu
