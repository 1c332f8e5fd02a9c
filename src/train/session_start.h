// What a session does once, before its first step.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"
#include "data/training_data.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "train/run_config.h"

namespace ng {

/// What the run file's objective learns from. Throws Error for what is missing or unreadable.
[[nodiscard]] std::unique_ptr<TrainingData> open_training_data(const RunConfig& config,
                                                               const Tokenizer& tokenizer);

/// Refuses to train on a machine that does not multiply as the recipe's numbers are defined.
void check_gemms(const Model& model, const std::string& backend, Compute compute);
/// The same of its updates.
void check_model_updates(Model& model, const std::string& backend, const OptimizerRecipe& optimizer,
                         const OptimizerSettings& settings);

/// The values that a model begins with: those of the folder model.init, or drawn. Returns the
/// checksum of the folder's; empty where they are drawn.
std::string put_first_values(Run& run, Model& model, const RunConfig& config);

}  // namespace ng
