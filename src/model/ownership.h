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

/// Whether rows of a parameter can be updated apart: nothing that they are stored with, and no norm
/// that decides about a step, belongs to all of them.
[[nodiscard]] bool has_separate_rows(const ParameterSpec& spec, const WeightStorage& storage,
                                     const OptimizerRecipe& optimizer);

/// The parameters of a model of `depth` blocks dealt to ranks. A layer's weight
/// that has noise and what the noise learns have one owner.
[[nodiscard]] Partition deal_parameters(std::span<const ParameterSpec> parameters,
                                        const Recipe& recipe, int64_t depth, int ranks,
                                        GradientRecipe::Shard shard, WeightGather gather);

}  // namespace ng
