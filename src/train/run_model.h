// What a run makes: its model/, a sample of it, and what its checkpoints know of the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/training_data.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "train/run_config.h"

namespace ng::io {
struct ModelSettings;
}

namespace ng {

/// What must be equal for a checkpoint to be of a model.
[[nodiscard]] Json model_identity(const ModelConfig& model);

/// Throws what reading the weights of model.init would about names, shapes and dtypes; what of the
/// folder is not read, in sentences. Nothing without model.init.
[[nodiscard]] std::vector<std::string> check_run_init(const RunConfig& config,
                                                      const ModelConfig& model);

/// What the folder of model.init says beside sizes, but for special tokens that data.tokenizer,
/// where that is another one, says otherwise; nothing without model.init.
[[nodiscard]] std::shared_ptr<const io::ModelSettings> run_model_settings(
    const RunConfig& config, const Tokenizer& tokenizer);

/// The model as lora.save says: whole, with its adapters merged in, or a PEFT folder of these. The
/// chat template is that of data.template, else the tokenizer's own. `settings` go along; what they
/// lack of special tokens is the tokenizer's.
void write_run_model(const std::string& folder, const RunConfig& config, const Run& run,
                     const Model& model, const Tokenizer& tokenizer,
                     const io::ModelSettings* settings = nullptr);

/// "12345 of 1234567 parameters are trained"; empty where there are no adapters.
[[nodiscard]] std::string adapters_text(const Model& model);

/// What the model goes on with after words of the training text: those and a few tokens, drawn by
/// the run's seed.
[[nodiscard]] std::string sample_text(Run& run, Model& model, const TrainingData& data,
                                      const Tokenizer& tokenizer);

}  // namespace ng
