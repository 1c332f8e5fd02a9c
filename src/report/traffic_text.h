// What the ranks of a run send, as text and pictures: for the screen and for the report.
#pragma once

#include <string>

#include "report/history.h"
#include "report/page.h"
#include "train/rank_traffic.h"

namespace ng::report {

/// "8.04 GiB a step, 65 % less than fp32+bf16, 48 % less than bf16+bf16", or "as many bytes as":
/// gradients and weights of all ranks together.
[[nodiscard]] std::string traffic_text(const RunTraffic& traffic);

/// Bytes by kind as they were counted in the last step, and gradients and weights beside both
/// baselines.
[[nodiscard]] Section traffic_section(const RunTraffic& traffic, const History& history);

}  // namespace ng::report
