// A training step that is only asked for: its operations, without numbers or memory.
#pragma once

#include <functional>

#include "speed/step_speed.h"

namespace ng {

/// Calls `hear` with every operation of a step in the recipe's phase of `shape`. Nothing is
/// computed and no memory is taken: `backend` says what operands and scratch need, and throws
/// Unsupported for what it lacks. The step's memory.
MemoryPlan plan_step(const Backend& backend, const ModelConfig& config, const Recipe& recipe,
                     const BenchShape& shape, const std::function<void(const Operation&)>& hear);

}  // namespace ng
