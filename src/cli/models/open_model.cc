#include "cli/models/open_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "cli/output.h"
#include "io/gguf/gguf.h"
#include "io/model_files.h"
#include "io/model_of_run.h"
#include "model/weights.h"
#include "report/recipe_text.h"
#include "train/run_files.h"

namespace ng::cli {

void ModelFlags::declare(Flags flags) {
  flags
      .option("MODEL", folder,
              "model folder in Hugging Face layout or of PEFT's adapters, a .gguf file, or a run's "
              "folder, whose model/ it is")
      .required();
  add_base(flags, base);
  add_recipe(flags, recipe);
  machine.declare(flags);
}

io::ModelName ModelFlags::name() const { return {io::model_path(folder), base}; }

void StepFlags::declare(Flags flags, const std::string& of_what) {
  const Flag option = flags.option("--model NAME", model,
                                   fmt::format("{}a model folder, or one of {}", of_what,
                                               fmt::join(model_preset_names(), ", ")));
  if (!model.empty()) option.shows_default();
  declare_shape(flags);
}

void StepFlags::declare_positional(Flags flags) {
  named_by = "MODEL";
  flags
      .option(named_by, model,
              fmt::format("a model folder, or one of {}", fmt::join(model_preset_names(), ", ")))
      .required();
  declare_shape(flags);
}

void StepFlags::declare_shape(Flags flags) {
  add_base(flags, base);
  flags.setting("--batch", batch, "sequences").range(1, 1 << 20);
  flags.option("--seq", length, "tokens of a sequence; else the context up to 256")
      .range(1, 1 << 24);
}

namespace {

ModelConfig named_config(const StepFlags& flags) {
  const std::string& model = flags.model;
  if (is_folder(model) || io::is_gguf(model) || !flags.base.empty())
    return io::read_model_config({io::model_path(model), flags.base});
  try {
    return model_preset(model);
  } catch (const Error& error) {
    refuse(flags.named_by, error.parts().problem, error.parts().remedy);
  }
}

}  // namespace

ModelConfig StepFlags::config() {
  const ModelConfig config = named_config(*this);
  if (length == 0) length = std::min<int64_t>(config.context, 256);
  return config;
}

OpenModel open_model(const ModelFlags& flags, uint64_t seed) {
  OpenModel open = ng::open_model(
      flags.name(), Recipe::load(flags.recipe),
      {.backend = flags.machine.backend,
       .threads = flags.machine.use(),
       .thread_order = flags.machine.thread_order,
       .seed = seed,
       .phase = {.word = flags.phase, .steps = [&] { return steps_of_model(flags.folder); }}});
  for (const std::string& sentence : open.left_out) note(sentence);
  return open;
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const ModelFlags& flags) {
  std::unique_ptr<Tokenizer> tokenizer = open_model_tokenizer(flags.name());
  if (const auto sentence = note_of_tokenizer(flags.name())) note(*sentence);
  return tokenizer;
}

std::string matches_text(const OpenModel& open) {
  return report::matches_text(open.recipe.matches(layers_of(open.model->config())));
}

void note_phase(const Recipe& recipe, const MeasuredPhase& phase) {
  if (const std::string sentence = note_of(recipe, phase); !sentence.empty()) note(sentence);
}

void note_chosen_numbers(const ModelFlags& flags, const OpenModel& open) {
  if (flags.recipe == ModelFlags().recipe && flags.phase.empty()) return;
  if (note_of(open.recipe, open.phase).empty())  // which says so itself
    note("in the numbers of " + text_of(open.recipe, open.phase));
  for (const RecipeMatch& match : open.recipe.matches(layers_of(open.model->config())))
    note(report::match_text(match));
}

void note_numbers(const OpenModel& open) {
  note_phase(open.recipe, open.phase);
  for (const std::string& sentence : missing_of_training(open)) note(sentence);
}

}  // namespace ng::cli
