// Gradients of a training run at its checkpoints, in many recipes, against those in FP32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "study/gradient_draws.h"
#include "study/study.h"

namespace ng::study {

/// One recipe at one checkpoint.
struct GradientErrors {
  DrawnErrors all;                 ///< the blocks' linear layers together
  std::vector<DrawnErrors> kinds;  ///< by RunGradients::kinds
  Mean loss;                       ///< of the batch, less that in FP32
};

struct RunGradients {
  std::string trained_in;  ///< the run's own recipe
  ModelConfig model;
  int64_t sequences = 0;                           ///< of the batch
  std::vector<int64_t> steps;                      ///< checkpoints, ascending
  std::vector<double> losses;                      ///< of the batch in FP32, by step
  std::vector<std::string> recipes;                ///< their labels
  std::vector<std::string> kinds;                  ///< of linear layers: "attn.q", "mlp.up", ...
  std::vector<std::vector<GradientErrors>> found;  ///< [recipe][step]
};

/// Takes the batch that would have been the run's next one after its end. Throws Error for what is
/// wrong with settings.run.
[[nodiscard]] RunGradients run_gradients(const Settings& settings);

}  // namespace ng::study
