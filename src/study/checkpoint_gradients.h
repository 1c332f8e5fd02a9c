// What recipes leave of the gradient of a training run at one of its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"
#include "study/gradient_draws.h"
#include "study/gradient_probe.h"

namespace ng::study {

/// What one recipe makes of a gradient.
struct GradientErrors {
  DrawnErrors all;                 ///< the blocks' linear layers together
  std::vector<DrawnErrors> kinds;  ///< by CheckpointGradients::kinds()
  Mean loss;                       ///< of the batch, less that in FP32
};

/// One batch of a run's text, that which would have been its next one after its end, whatever
/// number is asked for. Throws Error for what is wrong with the run's files.
[[nodiscard]] ProbeTask task_of_run(const RunConfig& config, uint64_t seed);

/// The gradient of the weights of a checkpoint in FP32, beside which those in recipes are looked
/// at.
class CheckpointGradients {
 public:
  /// `task`: that of the checkpoint's run, which outlives this.
  CheckpointGradients(const io::CheckpointEntry& checkpoint, const ProbeTask& task,
                      Threads threads);

  /// Of linear layers, in the model's order: "attn.q", "mlp.up", ...
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }
  /// Of the batch in FP32.
  [[nodiscard]] double loss() const { return exact_.loss(); }
  /// A model in the numbers of a recipe, whose phase can be set before errors_of().
  [[nodiscard]] GradientProbe probe(const std::string& recipe) const {
    return {recipe, task_, threads_};
  }
  /// Of the same weights in the recipe of `probe`, drawn so many times, twice or more.
  [[nodiscard]] GradientErrors errors_of(GradientProbe& probe, int64_t draws) const;

 private:
  const ProbeTask& task_;
  Threads threads_;
  GradientProbe exact_;
  GradientDraws none_;  ///< holds the gradient of `exact_`
  std::vector<std::string> kinds_;
  std::vector<std::vector<size_t>> matrices_;  ///< of each kind
};

}  // namespace ng::study
