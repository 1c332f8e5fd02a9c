// How long a search takes, by steps that are measured before it and runs as they end.
#pragma once

#include <cstdint>

#include "base/threads.h"
#include "recipe/recipe.h"
#include "train/run_config.h"

namespace ng::search {

/// Of a run's step in a recipe, a few measured ones on random tokens.
[[nodiscard]] double step_seconds(const RunConfig& config, const ModelConfig& model,
                                  const Recipe& recipe, Threads threads);

/// Estimates of work, made better by work that was done.
class WorkTime {
 public:
  /// Work that was estimated to take so long took so long.
  void took(double estimated, double seconds) {
    estimated_ += estimated;
    seconds_ += seconds;
  }
  [[nodiscard]] double seconds_of(double estimated) const {
    return estimated_ > 0 && seconds_ > 0 ? estimated * seconds_ / estimated_ : estimated;
  }

 private:
  double estimated_ = 0, seconds_ = 0;
};

}  // namespace ng::search
