// A model folder opened for use: weights loaded, in the numbers of a recipe.
#pragma once

#include <memory>
#include <string>

#include "cli/flags.h"
#include "data/tokenizer.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "run/run.h"

namespace ng::cli {

/// Which model, in which numbers, on what.
struct ModelFlags {
  std::string folder;  ///< in Hugging Face's layout, quantized or not; or a GGUF file
  std::string recipe = "fp32";
  MachineFlags machine;

  void declare(CLI::App& app);
};

/// A model without weights and the tokens of a step, for measurements.
struct StepFlags {
  std::string model;  ///< a folder or a preset
  int64_t batch = 8;  ///< sequences
  int64_t length = 0;

  void declare(CLI::App& app);
  /// Also gives `length` its default, the context up to 256. Throws Error for an unknown model.
  [[nodiscard]] ModelConfig config();
};

struct OpenModel {
  Recipe recipe;
  Threads threads;
  std::unique_ptr<Run> run;
  std::unique_ptr<Model> model;
};

/// The tokenizer of a model folder or a GGUF file. Throws Error where there is no such folder or
/// none in it.
[[nodiscard]] std::unique_ptr<Tokenizer> open_model_tokenizer(const std::string& folder);

/// Weights of the folder under the recipe's last phase. Throws Error for what is wrong with either.
[[nodiscard]] OpenModel open_model(const ModelFlags& flags, uint64_t seed = 1);

/// Tells the user where the recipe scales by what earlier steps have seen: a model folder has no
/// such history, so those scales are 1.
void note_missing_histories(const OpenModel& open);

/// The same of the bit-widths by which nipq quantizes: a model folder has none, so those are the
/// ones that training begins with.
void note_missing_bit_widths(const OpenModel& open);

}  // namespace ng::cli
