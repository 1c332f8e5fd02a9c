// How the rows of a parameter belong together: Adam-mini has a second moment for each block, Muon
// makes every matrix of a fused one orthogonal by itself.
#pragma once

#include "nn/parameter.h"
#include "tensor/row_blocks.h"

namespace ng {

/// The blocks of recipes.md §6 [Zhang et al. 2024, Adam-mini; errata-2, 16]: q and k one per head,
/// other linear layers one per output, embedding and head one per token, positions and norms one
/// for the tensor. A fused qkv has sections of q, k and v, in that order. `kv_heads` may be fewer
/// than `heads`. Throws Error where heads do not divide the rows.
[[nodiscard]] RowBlocks row_blocks(const ParameterSpec& spec, int64_t heads, int64_t kv_heads);

}  // namespace ng
