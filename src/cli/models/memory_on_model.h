// What training a model by a recipe takes of memory, planned without taking it.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cli/models/open_model.h"
#include "recipe/recipe.h"
#include "train/memory_plan.h"

namespace ng::cli {

/// Plans for a batch of one micro-batch, AdamW's defaults, without recomputation.
struct MemoryOnModel {
  MemoryPlan plan;
  MemoryPlan fp32;  ///< of FP32 AdamW
  int64_t parameters = 0;
};
[[nodiscard]] MemoryOnModel memory_on_model(const Recipe& recipe, StepFlags step,
                                            const MachineFlags& machine);

/// As the event `memory` of metrics.jsonl has it.
[[nodiscard]] Json json_of(const MemoryOnModel& memory);
/// The same as a table.
[[nodiscard]] std::string text_of(const MemoryOnModel& memory);

}  // namespace ng::cli
