// What `plan` prints: one JSON object, and the same as tables.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "plan/rank_scale.h"

namespace ng::cli {

/// Of each rank: scratch grows with them, and a plan is the same on every machine.
inline constexpr int kPlannedThreads = 1;

/// Everything that was planned.
struct Planned {
  std::string model;  ///< as it was named
  const RankPlan& plan;
  StepSettings step;
  MemoryOfRanks memory;
  RankMemory one;  ///< of one process that has everything
  uint64_t device_bytes = 0;
  int64_t largest_batch = 0;
  StepTraffic traffic;
  std::optional<ManyRanks> many;
  const PublishedShape* published = nullptr;  ///< null: the model is none of them
};

[[nodiscard]] Json plan_json(const Planned& planned);
[[nodiscard]] std::string plan_text(const Json& plan);

}  // namespace ng::cli
