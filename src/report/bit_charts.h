// The charts of the bit-widths that noise on weights learns.
#pragma once

#include <vector>

#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// A chart of each figure, over all blocks and for each block; a line for each kind of layer.
[[nodiscard]] std::vector<ChartChoice> bit_charts(const History& history);

/// What the numbers of these charts are.
inline constexpr const char* kBitNote =
    "The bit-widths b_t of the blocks of weights that share one, as they are learned: their mean "
    "by layer, the deviation and the range over a layer's blocks, and the shares of blocks that "
    "fit into formats of 8 bits (5 or fewer), BF16 (9 or fewer) and FP16 (12 or fewer).";

}  // namespace ng::report
