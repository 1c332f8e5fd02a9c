// What a run's memory is for, as a table: for the screen and for the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/memory_plan.h"

namespace ng::report {

/// The heading and a row for each kind of memory that there is: most bytes at any time, the same
/// per parameter, at the peak, and what FP32 AdamW needs most. What is stored under several names
/// has a row for each below its kind: "- carry, int8". The last row is the total at the peak.
[[nodiscard]] std::vector<std::string> memory_heading();
[[nodiscard]] std::vector<std::vector<std::string>> memory_rows(const MemoryPlan& plan,
                                                                const MemoryPlan& fp32,
                                                                int64_t parameters);

/// The same in short: "126.8 MiB at the peak, 38.26 B per parameter; FP32 AdamW 185.0 MiB", and
/// what each kind takes at most, but for those below a hundredth of the peak: "weights 13.3 MiB,
/// ...".
[[nodiscard]] std::string memory_at_peak_text(const MemoryPlan& plan, const MemoryPlan& fp32,
                                              int64_t parameters);
[[nodiscard]] std::string memory_kinds_text(const MemoryPlan& plan);

/// "policy 53.0 MiB of weights, masters, moments, gradients; reference 6.6 MiB of weights"; empty
/// where there is one model.
[[nodiscard]] std::string roles_text(const MemoryPlan& plan);

}  // namespace ng::report
