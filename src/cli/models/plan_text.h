// What `plan` prints: one JSON object, and the same as tables.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "plan/pipeline_plan.h"
#include "plan/rank_scale.h"

namespace ng::cli {

/// Of each rank: scratch grows with them, and a plan is the same on every machine.
inline constexpr int kPlannedThreads = 1;

/// Of training by one recipe.
struct Fit {
  std::string recipe;
  size_t bytes = 0;           ///< of the rank that has most
  int64_t largest_batch = 0;  ///< sequences in a micro-batch that its device holds; 0: not one
};

/// Of one stage of a pipeline.
struct StageFacts {
  const RankPlan& plan;
  RankMemory most;  ///< of its rank that has most
  SentToStages sent;
};

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
  std::optional<RankMemory> in_bf16;          ///< of preference training, to compare with
  std::vector<StageFacts> stages;             ///< of a pipeline; `plan` is of the one that has most
  std::vector<Fit> fits;                      ///< of a published model: what its authors compared
};

[[nodiscard]] Json plan_json(const Planned& planned);
[[nodiscard]] std::string plan_text(const Json& plan);

}  // namespace ng::cli
