// What a run file names, opened: its recipe, its text and the sizes of its model.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "data/corpus.h"
#include "data/preference_pairs.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/run_config.h"
#include "train/trainer.h"

namespace ng {

/// Recipe::load() of `recipe`; the error of a name that is unknown has the run file's.
[[nodiscard]] Recipe open_run_recipe(const RunConfig& config);

/// open_tokenizer() of [data]; the error of one that does not exist has the run file's name.
[[nodiscard]] std::unique_ptr<Tokenizer> open_run_tokenizer(const RunConfig& config);

/// How [data] has files read.
[[nodiscard]] TextRules text_rules(const RunConfig& config);

/// The texts of [data]. Throws Error for what is missing, unreadable or empty, and where the run's
/// objective takes pairs.
[[nodiscard]] Corpus open_run_corpus(const RunConfig& config, const Tokenizer& tokenizer,
                                     const ReadProgress& progress = {});

/// The pairs of [data]. Throws Error for what is missing, unreadable or empty.
[[nodiscard]] PreferencePairs open_run_pairs(const RunConfig& config, const Tokenizer& tokenizer);

/// TrainingData::require_length, naming the texts.
void require_run_length(const TrainingData& data, const RunConfig& config, int64_t context);

/// Throws Error where train.deterministic = "global" and gradients are not added or sent in FP32.
void require_global_sums(const RunConfig& config, const Recipe& recipe);

/// Throws Error where the recipe moves more than adapters, or moves matrices by their heads.
void require_lora_numbers(const RunConfig& config, const Recipe& recipe, const ModelConfig& model);

/// Throws Error where train.tensor_parallel does not divide the ranks, the model, a micro-batch or
/// what the recipe's numbers share scales and draws over. `comm`: those ranks; null: one.
void require_tensor_parallel_run(const RunConfig& config, const Recipe& recipe,
                                 const ModelConfig& model, const Comm* comm);

/// Throws Error{place, key, ...} where random keys cannot number the micro-batches of all ranks,
/// `micros` of each.
void require_countable_micros(int64_t micros, int64_t ranks, std::string_view place,
                              std::string key);

/// The model of [model], from its `init` folder where one is named. Throws Error where the
/// tokenizer could name a token that it lacks.
[[nodiscard]] ModelConfig run_model_config(const RunConfig& config, const Tokenizer& tokenizer);

/// Tokens of a sequence. Throws Error where train.length is above the model's context.
[[nodiscard]] int64_t run_length(const RunConfig& config, const ModelConfig& model);

/// Puts train.steps where epochs were given: as many steps as draw that many times what there is to
/// train on, the last of them whole. `groups` of ranks have batches of their own. Returns a
/// sentence about it; empty where there was nothing to put.
[[nodiscard]] std::string count_steps(RunConfig& config, const TrainingData& data, int64_t length,
                                      int64_t groups);

/// "1,200", or "2 epochs" that are not counted yet.
[[nodiscard]] std::string steps_text(const RunTrain& train);

/// What [train] and [dpo] say of a step.
[[nodiscard]] StepSettings step_settings(const RunConfig& config, const ModelConfig& model);

}  // namespace ng
