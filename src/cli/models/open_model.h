// Flags that say which model, in which numbers, on what.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cli/shared_flags.h"
#include "infer/open_model.h"

namespace ng::cli {

/// A model folder and the recipe that it is computed in.
struct ModelFlags {
  std::string folder;  ///< in Hugging Face's layout, quantized or not; a GGUF file; a run's folder
  std::string base;    ///< of adapters
  std::string recipe = "fp32";
  std::string phase;  ///< of it, as --phase says: of commands that take it
  MachineFlags machine;

  void declare(Flags flags);
  /// With the model of a run in place of the run. Throws Error where that has none.
  [[nodiscard]] io::ModelName name() const;
};

/// A model without weights and the tokens of a step, for measurements.
struct StepFlags {
  std::string model;   ///< a folder, also of a run, or a preset
  std::string base{};  ///< of adapters
  int64_t batch = 8;   ///< sequences
  int64_t length = 0;
  const char* named_by = "--model";

  /// `of_what`: what --help says of --model before what may be named.
  void declare(Flags flags, const std::string& of_what = "");
  /// With MODEL in place of --model.
  void declare_positional(Flags flags);
  /// Also gives `length` its default, the context up to 256. Throws Error for an unknown model.
  [[nodiscard]] ModelConfig config();

 private:
  void declare_shape(Flags flags);
};

/// Weights of the folder under the recipe's phase; the user hears what of it is not read.
/// Throws Error for what is wrong with either.
[[nodiscard]] OpenModel open_model(const ModelFlags& flags, uint64_t seed = 1);

/// The model's tokenizer; the user hears what is not known of it.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer_of(const ModelFlags& flags);

/// Which layers each override and phase of its recipe means, a line each.
[[nodiscard]] std::string matches_text(const OpenModel& open);

/// Tells the user which phase is measured where there are several and none was chosen.
void note_phase(const Recipe& recipe, const MeasuredPhase& phase);

/// Tells the user in whose numbers what is printed was made, where that was chosen: on standard
/// error, for standard output has nothing but a text.
void note_chosen_numbers(const ModelFlags& flags, const OpenModel& open);

/// Tells the user which phase is measured as note_phase, and what the recipe needs of training that
/// is not in a model folder.
void note_numbers(const OpenModel& open);

}  // namespace ng::cli
