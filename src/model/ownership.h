// Which rank keeps the states of which rows, and updates them. Values of weights lie whole on every
// rank. [distributed.md §3; Rajbhandari et al. 2020, ZeRO]
#pragma once

#include <span>
#include <vector>

#include "comm/partition.h"
#include "model/weights.h"
#include "nn/parameter.h"
#include "recipe/recipe.h"

namespace ng {

/// Whether rows of a parameter can be updated apart: no norm that decides about a step belongs to
/// all of them, nor what they are stored with but scales that train/shared_scales.h makes.
[[nodiscard]] bool has_separate_rows(const ParameterSpec& spec, const WeightStorage& storage,
                                     const OptimizerRecipe& optimizer);

/// How many ranks divide the batch and, each of those as a group, the layers.
struct RankCounts {
  int data = 1, tensor = 1;
  [[nodiscard]] int all() const { return data * tensor; }
};

/// The parameters of a model of `depth` blocks, as a rank has them, dealt to ranks. A layer's
/// weight that has noise and what the noise learns have one owner. What ranks of a tensor group
/// have parts of is dealt to the ranks with the same part, whose place in their group is the owner;
/// what is whole to all. What is frozen has no owner. Loads are of all ranks. [comm/rank_groups.h]
[[nodiscard]] Partition deal_parameters(std::span<const ParameterSpec> parameters,
                                        const Recipe& recipe, int64_t depth,
                                        const RankCounts& ranks, GradientRecipe::Shard shard,
                                        WeightGather gather);

}  // namespace ng
