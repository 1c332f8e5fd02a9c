// Where the time of training went, and what its memory is for.
#pragma once

#include <string>

#include "run/run.h"
#include "train/memory_plan.h"

namespace ng::cli {

/// Seconds and percent by kind of operation, the longest first; kinds that took nothing left out.
/// `rest`: seconds outside of operations, the last row; 0: not known.
[[nodiscard]] std::string time_table(const TimeByKind& seconds, double rest = 0);

/// report::memory_rows as a table.
[[nodiscard]] std::string memory_table(const MemoryPlan& plan, const MemoryPlan& fp32,
                                       int64_t parameters);

}  // namespace ng::cli
