#include "plan/pipeline_plan.h"

#include <algorithm>

namespace ng {

PipelinePlan::PipelinePlan(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                           const RankLayout& layout, int64_t stages) {
  stages_.reserve(static_cast<size_t>(stages));
  for (int64_t index = 0; index < stages; ++index)
    stages_.emplace_back(backend, model, recipe,
                         RankLayout{.ranks = layout.ranks / stages, .tensor = layout.tensor},
                         Stage{.index = index, .of = stages});
}

SentToStages PipelinePlan::sent(const RankPlan& stage, const StepSettings& settings) const {
  const int64_t bytes = stage.recipe().compute(0) == Compute::bf16 ? 2 : 4;
  const double of_boundary = static_cast<double>(settings.sequences * settings.length *
                                                 settings.micros * stage.model().width * bytes) /
                             static_cast<double>(stage.layout().tensor);
  return {.forward = stage.stage().is_last() ? 0 : of_boundary,
          .backward = stage.stage().index == 0 ? 0 : of_boundary};
}

// Stages between the ends have fewer parameters than the first, and no more in flight.
int64_t PipelinePlan::largest_batch(const StepSettings& settings, size_t bytes) const {
  return std::min(stages_.front().largest_batch(settings, bytes),
                  stages_.back().largest_batch(settings, bytes));
}

}  // namespace ng
