// Sums of one tile over one block of K by integer dot products.
#pragma once

#include "backend/cpu/gemm_job.h"
#include "backend/cpu/gemm_scratch.h"

namespace ng::cpu {

// Panels begin at the first of the `count` values along K. The bits are those of the FP32 kernels.

/// to = factor · (from + the products, scaled segment by segment).
void sum_scaled_dots(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                     TileOut to, float factor);

/// Sum::integer: adds the products of k [k, k + count) to local.totals, and those to local.acc
/// where a chunk is complete.
void sum_integer_dots(const Job& job, int64_t k, int64_t count, const Panel& a, const Local& local);

}  // namespace ng::cpu
