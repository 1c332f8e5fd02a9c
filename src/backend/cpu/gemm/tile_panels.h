// Panels for matrix tiles (isa/matrix-inl.h).
//
// A right panel lies as any other: pairs of BF16 or words of int8, k-major, the words without bias.
// A left one is turned, piece by piece along K: [pieces][rows][words of a piece], since tiles of a
// hold rows along K. A panel of 32 rows in pieces of 16 words: words 0 ... 15 of row 0, of row 1,
// ... of row 31, then words 16 ... 31 of row 0.
#pragma once

#include "backend/cpu/gemm/job.h"

namespace ng::cpu {

/// Fills a panel of a job whose kernels are of tiles.
void pack_tile_panel(const Job& job, Side side, const PanelPlace& place, const Panel& panel);

}  // namespace ng::cpu
