#include "cli/models/open_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "cli/output.h"
#include "interop/gguf_tokenizer.h"
#include "io/model_files.h"
#include "run/backends.h"

namespace ng::cli {

void ModelFlags::declare(CLI::App& app) {
  app.add_option("MODEL", folder, "model folder in Hugging Face layout, or a .gguf file")
      ->required();
  app.add_option("--recipe", recipe, "recipe, a name or a file")
      ->type_name("NAME")
      ->capture_default_str();
  machine.declare(app);
}

void StepFlags::declare(CLI::App& app) {
  std::string presets;
  for (const std::string_view name : model_preset_names())
    presets.append(presets.empty() ? "" : ", ").append(name);
  CLI::Option* option = app.add_option("--model", model, "a model folder, or one of " + presets);
  option->type_name("NAME");
  if (!model.empty()) option->capture_default_str();
  app.add_option("--batch", batch, "sequences")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--seq", length, "tokens of a sequence; else the context up to 256")
      ->check(CLI::Range(1, 1 << 24));
}

namespace {

ModelConfig named_config(const std::string& model) {
  if (is_folder(model) || io::is_gguf(model)) return io::read_model_config(model);
  try {
    return model_preset(model);
  } catch (const Error& error) {
    throw Error({.place = "--model",
                 .key = "",
                 .problem = error.parts().problem,
                 .remedy = error.parts().remedy});
  }
}

}  // namespace

ModelConfig StepFlags::config() {
  const ModelConfig config = named_config(model);
  if (length == 0) length = std::min<int64_t>(config.context, 256);
  return config;
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const std::string& folder) {
  if (is_folder(folder)) return open_tokenizer(folder);
  if (io::is_gguf(folder)) return open_gguf_tokenizer(io::Gguf(folder));
  throw Error({.place = folder,
               .key = "",
               .problem = is_file(folder) ? "is no folder and no GGUF file" : "no such folder",
               .remedy = "a model folder: config.json, model.safetensors, tokenizer.json; or a "
                         ".gguf file"});
}

OpenModel open_model(const ModelFlags& flags, uint64_t seed) {
  const ModelConfig config = io::read_model_config(flags.folder);
  const io::ParameterReader read = io::open_model_weights(flags.folder, config);
  OpenModel open{Recipe::load(flags.recipe), flags.machine.use(), nullptr, nullptr};
  open.run = std::make_unique<Run>(make_backend(flags.machine.backend, open.threads), seed);
  open.model = std::make_unique<Model>(*open.run, config, open.recipe, RecomputePolicy::none);
  io::copy_parameters(config, read, [&](size_t index, int64_t row, std::span<const float> values) {
    open.model->write_row(*open.run, index, row, values);
  });
  open.model->start_noise(*open.run);
  open.model->set_phase(*open.run, static_cast<int>(open.recipe.phase_starts().size()) - 1);
  return open;
}

void note_missing_histories(const OpenModel& open) {
  for (const Linear* linear : open.model->linears())
    for (size_t role = 0; role < kOperandRoles; ++role) {
      if (linear->delayed(static_cast<OperandRole>(role)).history == nullptr) continue;
      note(open.recipe.name() +
           " scales by the history of training, which a model folder does not hold: its scales are "
           "1 here");
      return;
    }
}

void note_missing_bit_widths(const OpenModel& open) {
  const WeightNoise& noise = open.recipe.settings(0).weight_noise;
  if (noise.kind == NoiseKind::nipq)
    note(
        fmt::format("{} quantizes by bit-widths that training learns, which a model folder does "
                    "not hold: they are {:g} here",
                    open.recipe.name(), noise.b_init));
}

}  // namespace ng::cli
