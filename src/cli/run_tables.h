// Where the time of training went, and what its memory is for.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "run/run.h"
#include "train/memory_plan.h"

namespace ng::cli {

/// Seconds and percent by kind of operation, the longest first; kinds that took nothing left out.
/// Below them what took time outside of steps' operations, by name.
[[nodiscard]] std::string time_table(
    const TimeByKind& seconds, const std::vector<std::pair<std::string_view, double>>& others);

/// report::memory_rows as a table.
[[nodiscard]] std::string memory_table(const MemoryPlan& plan, const MemoryPlan& fp32,
                                       int64_t parameters);

}  // namespace ng::cli
