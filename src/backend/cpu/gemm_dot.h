// Sums of one tile over one block of K by integer dot products.
#pragma once

#include "backend/cpu/gemm_job.h"
#include "backend/cpu/gemm_scratch.h"

namespace ng::cpu {

/// As the FP32 kernels would, to the bit: adds the products of k [k, k + count) to local.acc, for
/// Sum::integer to local.totals first. Panels begin at k.
void sum_dots(const Job& job, int64_t k, int64_t count, const Panel& a, const Local& local);

}  // namespace ng::cpu
