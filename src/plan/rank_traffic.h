// What each rank sends in a step of training by a recipe, before it is done.
#pragma once

#include "plan/published_shapes.h"
#include "plan/rank_memory.h"
#include "train/run_traffic.h"

namespace ng {

/// Of a plan: what is whole on every rank over all of them, parts of layers over those that have
/// the same.
[[nodiscard]] PayloadAgainst payload_of(const RankPlan& plan);

/// Of the first pipeline stage, laid out as published.
[[nodiscard]] PayloadAgainst payload_of(const PublishedShape& shape, const Recipe& recipe);

struct StepTraffic {
  PayloadAgainst mean;
  BytesByTraffic least{}, most{};  ///< of the ranks that send least and most of all kinds
  int least_rank = 0, most_rank = 0;
  ActivationTraffic activations;
};
[[nodiscard]] StepTraffic step_traffic(const RankPlan& plan, const StepSettings& settings);

}  // namespace ng
