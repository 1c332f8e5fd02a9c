// What training takes and sends where stages of a pipeline have the model's blocks.
#pragma once

#include <vector>

#include "plan/rank_memory.h"

namespace ng {

/// What a rank sends to the stages beside its own in a step: with tensor-parallel ranks its share
/// of the tokens.
struct SentToStages {
  double forward = 0, backward = 0;  ///< bytes: inputs of the next stage; their gradients
};

class PipelinePlan {
 public:
  /// `layout` is of all ranks; `stages`, 1 or more, divides its groups and the model's blocks.
  PipelinePlan(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
               const RankLayout& layout, int64_t stages);

  /// Each with its own ranks.
  [[nodiscard]] const std::vector<RankPlan>& stages() const { return stages_; }
  [[nodiscard]] SentToStages sent(const RankPlan& stage, const StepSettings& settings) const;
  /// The most sequences in a micro-batch that every rank holds in `bytes`; 0: not one.
  [[nodiscard]] int64_t largest_batch(const StepSettings& settings, size_t bytes) const;

 private:
  std::vector<RankPlan> stages_;
};

}  // namespace ng
