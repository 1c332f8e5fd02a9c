// Scales of the second level that regions of an operand have, not the whole: how they are found,
// in the first of two passes over its values. [linear.md 7]
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// body(index of the region, first block, end) for the runs of a row's blocks that lie in one
/// region each: `count` blocks along K from (row, k) on.
template <class Body>
void for_region_runs(const QuantizeJob& job, int64_t row, int64_t k, int64_t count,
                     const Body& body) {
  const RegionScales& regions = job.regions;
  const int64_t block = job.plan.block_cols, first = row / regions.rows * regions.across;
  int64_t region = k / regions.cols;
  for (int64_t b = 0, end = 0; b < count; b = end, ++region) {
    end = std::min(count, ceil_div((region + 1) * regions.cols - k, block));
    body(first + region, b, end);
  }
}

/// Fills job.regions from the amax of each region's values.
void find_region_scales(const Workspace& workspace, const QuantizeJob& job);

}  // namespace ng::cpu
