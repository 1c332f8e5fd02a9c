// What the ranks of a run send, as text and pictures: for the screen and for the report.
#pragma once

#include <string>

#include "report/history.h"
#include "report/page.h"
#include "train/run_traffic.h"

namespace ng::report {

/// "8.04 GiB a step, 65 % less than fp32+bf16, as many bytes as bf16+bf16; and 2.5 GiB of
/// activations": gradients and weights of all ranks together, then what ranks that divide layers
/// send.
[[nodiscard]] std::string traffic_text(const RunTraffic& traffic);

/// Bytes by kind as they were counted in the last step, and gradients and weights beside both
/// baselines.
[[nodiscard]] Section traffic_section(const RunTraffic& traffic, const History& history);

}  // namespace ng::report
