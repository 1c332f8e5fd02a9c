// A model folder or GGUF file opened for use: weights loaded, in the numbers of a recipe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "io/model_name.h"
#include "model/model.h"
#include "recipe/phase_choice.h"
#include "run/run.h"
#include "tokenizer/tokenizer.h"

namespace ng {

struct OpenModel {
  Recipe recipe;
  MeasuredPhase phase;  ///< of the recipe
  Threads threads;
  std::unique_ptr<Run> run;
  std::unique_ptr<Model> model;
  std::vector<std::string> left_out;  ///< what the files hold that is not read, in sentences
};

/// What computes, and with which draws.
struct OpenModelSettings {
  std::string backend = "cpu";
  Threads threads;
  uint64_t thread_order = 0;  ///< of an emulated card
  uint64_t seed = 1;
  PhaseChoice phase = {};  ///< without a word the last
};

/// Weights of the folder, quantized or not or of adapters, or the GGUF file under the recipe in
/// settings.phase. Throws Error for what is wrong with either.
[[nodiscard]] OpenModel open_model(const io::ModelName& name, Recipe recipe,
                                   const OpenModelSettings& settings);

/// The tokenizer of a model folder (of a PEFT folder without one: its base's) or a GGUF file.
/// Throws Error where there is neither, or no tokenizer in it.
[[nodiscard]] std::unique_ptr<Tokenizer> open_model_tokenizer(const io::ModelName& name);

/// What the user of it should know: that a GGUF file does not say how it cuts texts.
[[nodiscard]] std::optional<std::string> note_of_tokenizer(const io::ModelName& name);

/// The tokens that end what a model generates: those of its generation_config.json, else of its
/// config.json, else its tokenizer's; of a GGUF file eos_token_id, eot_token_id and eom_token_id.
/// `vocab`: of the model. Throws Error where a file says something else there.
[[nodiscard]] std::vector<int32_t> end_tokens_of(const io::ModelName& model, int64_t vocab);

/// What the recipe needs of training that a model folder does not hold: the histories by which it
/// scales, whose scales are 1 then; the bit-widths by which nipq quantizes, which are those that
/// training begins with. A sentence for each.
[[nodiscard]] std::vector<std::string> missing_of_training(const OpenModel& open);

}  // namespace ng
