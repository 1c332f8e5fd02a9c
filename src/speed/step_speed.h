// Times whole training steps of a model on random tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"
#include "recipe/recipe.h"
#include "run/run.h"
#include "train/trainer.h"

namespace ng {

struct BenchShape {
  int64_t batch = 1;   ///< sequences
  int64_t length = 1;  ///< tokens of a sequence, at most the model's context
  int64_t steps = 5;   ///< timed ones
  int64_t warmup = 2;  ///< before them
  int phase = 0;       ///< of the recipe
};

constexpr float kBenchRate = 1e-4f;  ///< of timed steps

struct BenchResult {
  std::vector<double> seconds;   ///< of each timed step
  double median_seconds = 0;     ///< of a step
  double tokens_per_second = 0;  ///< at the median
  double first_loss = 0;         ///< before the first update
  double flops_per_token = 0;
  int64_t skipped = 0;  ///< timed steps without an update: something was not finite
  MemoryPlan planned;
  TimeByKind seconds_by_kind{};  ///< sums over the timed steps
  ExchangeSeconds exchange{};    ///< sums over the timed steps, of this rank
  BytesByTraffic sent{};         ///< in a step, by all ranks together

  /// Of the timed steps, outside of operations.
  [[nodiscard]] double rest_seconds() const;
};

/// Throws Error, naming --seq or --batch, for a shape that the model cannot take.
void require_shape(const ModelConfig& model, const BenchShape& shape);

/// Ids drawn uniformly below `vocab`, of `shape`'s sequences from `first_sequence` on: input t + 1
/// is target t.
void fill_random_tokens(const BatchSpans& to, const BenchShape& shape, int64_t vocab, int64_t step,
                        int64_t first_sequence);

/// Initializes the model and trains it on tokens that are drawn uniformly, `shape` on each rank.
[[nodiscard]] BenchResult bench_steps(Run& run, Model& model, const Recipe& recipe,
                                      const BenchShape& shape);

}  // namespace ng
