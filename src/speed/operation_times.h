// Times of operations, noted while steps run, of which times of other steps are made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/model.h"
#include "recipe/recipe.h"
#include "speed/operation_key.h"
#include "speed/step_speed.h"
#include "train/memory_plan.h"

namespace ng {

/// A training step without its numbers: which operations it does how often, what it takes of
/// memory.
struct StepOutline {
  struct Row {
    OperationKey key;
    TimeKind time = TimeKind::elementwise;
    int64_t count = 0;
  };
  std::vector<Row> rows;
  MemoryPlan memory;
};

/// Of the recipe's first phase. Nothing is computed and no memory is taken: `backend` says what
/// operands and scratch need, and throws Unsupported for what it lacks.
[[nodiscard]] StepOutline outline_step(const Backend& backend, const ModelConfig& model,
                                       const Recipe& recipe, const BenchShape& shape);

class OperationTimes {
 public:
  /// Trains a model of random weights on random tokens for `shape`'s steps, and notes the time of
  /// every operation.
  void measure(std::unique_ptr<Backend> backend, const ModelConfig& model, const Recipe& recipe,
               const BenchShape& shape);
  /// Whether the time of a row is known: operations of its text were timed, or large ones of its
  /// kind, where it grows in proportion.
  [[nodiscard]] bool knows(const StepOutline::Row& row) const;
  [[nodiscard]] bool knows(const StepOutline& step) const;
  /// Whether it would be known if the operations of `measured` were timed as well.
  [[nodiscard]] bool would_know(const StepOutline& step, const StepOutline& measured) const;
  /// Seconds of a step whose rows are known.
  [[nodiscard]] TimeByKind seconds(const StepOutline& step) const;

 private:
  struct Rate {
    double work = 0;  ///< of the largest that was timed
    double seconds_per_work = 0;
  };
  class Noting;
  void take(const std::unordered_map<std::string, std::vector<double>>& seconds,
            const std::unordered_map<std::string, OperationKey>& keys);
  [[nodiscard]] double seconds(const StepOutline::Row& row) const;

  std::unordered_map<std::string, double> seconds_;  // by text
  std::unordered_map<std::string, Rate> rates_;      // by kind
};

}  // namespace ng
