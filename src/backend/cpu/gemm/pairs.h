// Chains over panels of BF16 pairs, and what keeps their kernels exact.
#pragma once

#include "backend/cpu/gemm/job.h"
#include "backend/cpu/gemm/scratch.h"

namespace ng::cpu {

/// Fills panel.smallest from the `count` values along K of `width` rows.
void note_smallest(const Panel& panel, int width, int64_t count);

/// to = from + the products of `count` values along K, one FMA chain. Tiles that may meet
/// subnormals, which the pair kernels would take for zeros, go through FP32. [base/bf16_dot.h]
void sum_bf16_pairs(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                    TileOut to);

}  // namespace ng::cpu
