// Causal attention without a T × T matrix: scores exist one tile at a time in a worker's scratch.
// [Dao et al. 2022, FlashAttention]
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// As Backend::attention. A query's result depends on its keys alone, never on how many queries are
/// asked at once: a cached and a whole forward pass give the same bits.
void attention(Workspace& workspace, View out, View lse, ConstView q, ConstView k, ConstView v,
               const AttentionShape& shape, Compute compute);

/// As Backend::attention_backward.
void attention_backward(Workspace& workspace, const AttentionBackward& args,
                        const AttentionShape& shape, Compute compute);

}  // namespace ng::cpu
