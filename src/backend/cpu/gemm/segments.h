// Sums of one tile over one block of K whose segments have scales.
#pragma once

#include "backend/cpu/gemm/job.h"
#include "backend/cpu/gemm/scratch.h"

namespace ng::cpu {

/// to = factor · (from + the products of `count` values along K, scaled segment by segment). Panels
/// begin at the first of them. The bits are the same with all Units.
void sum_segments(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                  TileOut to, float factor);

}  // namespace ng::cpu
