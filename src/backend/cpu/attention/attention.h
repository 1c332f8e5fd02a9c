// Causal attention without a T × T matrix: scores exist one tile at a time in a worker's scratch.
// [Dao et al. 2022, FlashAttention]
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

/// A query's result depends on its keys alone, never on how many queries are asked at once: a
/// cached and a whole forward pass give the same bits.
void perform(Workspace& workspace, const Attention& op);
void perform(Workspace& workspace, const AttentionBackward& op);

}  // namespace ng::cpu
