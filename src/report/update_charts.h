// The charts of what updates do to the weights of a run.
#pragma once

#include <vector>

#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// A chart of each metric that has values, over all blocks and for each block; a line for each kind
/// of layer.
[[nodiscard]] std::vector<ChartChoice> update_charts(const History& history);

/// What the numbers of these charts are.
inline constexpr const char* kUpdateNote =
    "What single updates did to the matrices as they are stored: the share of weights whose value "
    "is another, the length of the change beside the length that was asked for (1 is right), its "
    "part along the direction asked for (1: no bias), and the cosine of the angle between both. "
    "Where the update is precision-aware, alpha / lr is by how much the step was lengthened so "
    "that the rounded one has the length asked for.";

}  // namespace ng::report
