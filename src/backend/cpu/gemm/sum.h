// Sums of one tile over one block of K, by the rule of the operands.
#pragma once

#include "backend/cpu/gemm/job.h"
#include "backend/cpu/gemm/scratch.h"

namespace ng::cpu {

/// One tile and one block of K.
struct Place {
  int64_t row = 0, rows = 0;  ///< outputs that exist; a whole tile may be more
  int64_t col = 0, cols = 0;
  int64_t k = 0, count = 0;
  float* partial = nullptr;  ///< where partial sums of the tile wait; null: in y
  int32_t* partial_totals = nullptr;
};

/// Goes on with the sums of a tile from where the block of K before left them; after the last one
/// writes y. `a` is the left panel, local.right the right one.
void run_tile(const Job& job, const Place& place, const Panel& a, const Local& local);

}  // namespace ng::cpu
