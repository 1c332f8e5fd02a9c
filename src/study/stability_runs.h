// Training runs of small models up a ladder of learning rates, and what is counted in each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "study/mean.h"
#include "study/study.h"
#include "train/schedule.h"
#include "train/trainer.h"

namespace ng::study {

// ---------------------------------------------------------------- what losses say of stability

inline constexpr double kSpikeWeight = 1.0 / 16;  ///< of a loss in its moving average
inline constexpr double kSpikeDeviations = 5;     ///< that a spike exceeds the average by

/// Mean of the last tenth of the losses, of one at least; NaN where there are none.
[[nodiscard]] double final_loss(std::span<const double> losses);

struct LossSpikes {
  int64_t count = 0;     ///< steps
  double largest = 0;    ///< excess over the average, nats; 0 where no loss exceeds it
  double deviation = 0;  ///< robust standard deviation of the excesses, nats
};

/// The excess of step t is e = loss - m, m the weighted moving average of the losses before it
/// (m = the first loss, then m ← m + (loss - m)/16). Of the steps from `first` on, those are spikes
/// whose excess is above five robust deviations, 5 · 1.4826 · median|e - median e|. Losses that are
/// not finite are no part of any of this: their steps were skipped.
[[nodiscard]] LossSpikes loss_spikes(std::span<const double> losses, int64_t first);

/// Whether a loss from step `first` on is above that of step 0.
[[nodiscard]] bool exceeds_start(std::span<const double> losses, int64_t first);

/// The largest over the median: NaN where there are none.
[[nodiscard]] double largest_over_median(std::span<const double> values);

// ---------------------------------------------------------------- runs

/// Nats by which a run may end above the best rate's and be stable.
inline constexpr double kStableMargin = 0.1;
/// A run ends after so many skipped steps in a row, as `train` does.
inline constexpr int64_t kMostSkips = 5;

/// Attention is looked at in so many steps, and in the last one.
inline constexpr int64_t kLooksAtLogits = 20;

/// Peak rates, ascending: 2^-10 ... 2^-1.
[[nodiscard]] const std::vector<double>& peak_rates();
[[nodiscard]] Names peak_rate_names();

/// A model, what it learns from, and for how long.
struct StabilityTask {
  ModelConfig model;
  StepSettings settings;
  Schedule schedule;  ///< as if its `lr` were 1
  std::function<void(int64_t step, int64_t micro, const BatchSpans& to)> fill;

  /// From here on the rate is the full one, or falling.
  [[nodiscard]] int64_t warm() const { return schedule.warmup; }
  [[nodiscard]] int64_t tokens() const {
    return schedule.steps * settings.sequences * settings.length * settings.micros;
  }
  /// At these steps attention is looked at: kLooksAtLogits + 1 at most, the first and the last
  /// among them.
  [[nodiscard]] bool is_watched(int64_t at) const;
  [[nodiscard]] std::vector<int64_t> watched_steps() const;
};

/// Entropy of the tokens that a task's steps predict, nats: the loss of a model that knows how
/// often each occurs and ignores its context.
[[nodiscard]] double token_entropy(const StabilityTask& task);

/// What happened in one run.
struct StabilityRun {
  std::vector<double> losses;  ///< by step, before its update; fewer where the run ended early
  std::vector<double> norms;   ///< of gradients, of the steps that were not skipped
  std::vector<double> logits;  ///< the largest of attention, by watched step
  int64_t skipped = 0;         ///< steps: something was not finite
};

/// From random weights. Throws Error where the recipe cannot run.
[[nodiscard]] StabilityRun train_once(const StabilityTask& task, const std::string& recipe,
                                      double peak_rate, uint64_t seed, Threads threads);

/// All runs of one recipe at one rate.
struct RateRuns {
  Mean start;            ///< first loss, nats
  Mean loss;             ///< mean of the last tenth, nats; NaN where a run ended early
  int64_t spikes = 0;    ///< loss_spikes() behind the warm-up
  double excess = 0;     ///< the largest over its average, nats
  double logit = 0;      ///< the largest at any watched step
  double gradient = 0;   ///< largest norm over the median one
  int64_t skipped = 0;   ///< steps
  bool exceeds = false;  ///< a loss behind the warm-up is above the first
  StabilityRun first;    ///< of the first seed

  void add(const StabilityTask& task, StabilityRun run);
};

/// One recipe, by peak_rates().
using Ladder = std::vector<RateRuns>;

/// Index of the rate with the least loss; -1 where no run reached its end.
[[nodiscard]] int64_t best_rate(const Ladder& ladder);
/// Index of the largest rate at which no step was skipped, no loss behind the warm-up is above the
/// first, and the loss at the end is within kStableMargin of the best rate's; -1: none.
[[nodiscard]] int64_t largest_stable_rate(const Ladder& ladder);
/// Mean over the rates of min(loss at the end, first loss), less the best rate's loss; a run that
/// ended early counts as its first loss. [Wortsman et al. 2023, "LR sensitivity"]
[[nodiscard]] double rate_sensitivity(const Ladder& ladder);

/// One model in all recipes.
struct StabilityTable {
  StabilityTask task;
  std::vector<Ladder> ladders;  ///< by recipe
  double entropy = 0;           ///< token_entropy(task)
};

struct Stability {
  std::string run;                   ///< the folder or file of RUN; empty: made up
  std::vector<std::string> recipes;  ///< their labels
  int64_t draws = 1;                 ///< seeds
  std::vector<StabilityTable> tables;
};

/// The model of settings.run, or a Llama and a GPT-2 on generated text. Throws Error for what is
/// wrong with settings.run.
[[nodiscard]] Stability stability_runs(const Settings& settings);

}  // namespace ng::study
