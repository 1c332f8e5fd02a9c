// What a session does once, before its first step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "comm/comm.h"
#include "data/read_progress.h"
#include "data/text_likeness.h"
#include "data/training_data.h"
#include "io/checkpoint_files.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/run_config.h"

namespace ng {

/// What a run file names.
struct RunInputs {
  RunConfig config;  ///< which names it
  Recipe recipe;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TrainingData> data;
};
/// Opens it. Throws Error, on all ranks where it is missing or unreadable on one.
[[nodiscard]] RunInputs open_inputs(RunConfig config, Comm* comm, const ReadProgress& progress);

/// What the run file's objective learns from. Throws Error for what is missing or unreadable.
[[nodiscard]] std::unique_ptr<TrainingData> open_training_data(const RunConfig& config,
                                                               const Tokenizer& tokenizer,
                                                               const ReadProgress& progress);

/// The model of a run, all that it is made of looked at: its data is long enough, and the recipe's
/// numbers are such as it can have. `notice` hears what to beware of. Throws Error where it cannot
/// be trained. `comm`: the ranks that train it; null: one.
[[nodiscard]] ModelConfig checked_run_model(const RunConfig& config, const Recipe& recipe,
                                            const Tokenizer& tokenizer, const TrainingData& data,
                                            const Comm* comm,
                                            const std::function<void(const std::string&)>& notice);
/// Puts what the run file leaves to the model and the data: count_steps(), of which `notice` hears.
void complete_run(RunConfig& config, const ModelConfig& model, const TrainingData& data,
                  const Comm* comm, const std::function<void(const std::string&)>& notice);
/// The validation text held against the training text.
[[nodiscard]] std::optional<TextLikeness> validation_likeness(const TrainingData& data,
                                                              const Tokenizer& tokenizer);
/// The event `data`: summary_of() its origin, and the likeness where there is one.
[[nodiscard]] Json data_event(const TrainingData& data,
                              const std::optional<TextLikeness>& likeness);

/// Throws Error where a run of `steps` steps has fewer than its checkpoint.
void require_steps_left(const io::CheckpointEntry& newest, int64_t steps);

/// What computes a run. Throws Error where its order of threads is none of that backend's.
[[nodiscard]] std::unique_ptr<Backend> backend_of(const RunConfig& config, Threads threads);

/// Refuses to train on a machine that does not multiply as the recipe's numbers are defined.
void check_gemms(const Model& model, const std::string& backend, Compute compute);
/// The same of its updates.
void check_model_updates(Model& model, const std::string& backend, const OptimizerRecipe& optimizer,
                         const OptimizerSettings& settings);

/// The values that a model begins with: those of the folder model.init, or drawn. Returns the
/// checksum of the folder's; empty where they are drawn.
std::string put_first_values(Run& run, Model& model, const RunConfig& config);

/// The same for the reference of a policy that has them, before the policy's change.
void put_reference_values(Run& run, Model& reference, const Model& policy, const RunConfig& config);

}  // namespace ng
