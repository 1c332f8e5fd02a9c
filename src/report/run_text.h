// What a run trains, as lines of text: for the screen and for the report.
#pragma once

#include <string>

#include "train/session.h"

namespace ng::report {

/// "llama: 4 layers, width 256, 4 heads of 64, ..."
[[nodiscard]] std::string model_text(const ModelConfig& config);

/// "4,184,192 tokens to train on, 220,220 to validate on: 64 blocks spread over the text"
[[nodiscard]] std::string data_text(const TrainingData& data);

/// "600 steps of 16 x 128 = 2,048 tokens; lr 0.001 to 0.0001, cosine, 20 steps of warm-up"
[[nodiscard]] std::string schedule_text(const RunConfig& config, const StepSettings& step,
                                        int ranks = 1);

/// ", twin 1 (...)" behind a seed, where the run has one; else empty.
[[nodiscard]] std::string twin_text(Session& session);

/// Name and hash of the recipe, a line for each GEMM of each group of layers in the first phase.
[[nodiscard]] std::string recipe_text(Session& session);
/// Which layers its overrides, noise and phases mean, a line each.
[[nodiscard]] std::string matches_text(Session& session);

/// ", forward in BF16" behind a recipe whose name says what only its backward products are in:
/// what a validation in that phase is of. Else empty.
[[nodiscard]] std::string forward_text(Session& session, int phase);

}  // namespace ng::report
