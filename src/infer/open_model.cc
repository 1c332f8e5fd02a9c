#include "infer/open_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/gguf/tokenizer.h"
#include "io/model_files.h"
#include "io/model_settings.h"
#include "run/backends.h"

namespace ng {
namespace {

bool scales_by_history(const Linear& linear) {
  for (size_t role = 0; role < kOperandRoles; ++role)
    if (linear.delayed(static_cast<OperandRole>(role)).history != nullptr) return true;
  return false;
}

}  // namespace

OpenModel open_model(const io::ModelName& name, Recipe recipe, const OpenModelSettings& settings) {
  const ModelConfig config = io::read_model_config(name);
  const io::ParameterReader read = io::open_model_weights(name, config);
  const MeasuredPhase phase = measured_phase(recipe, settings.phase);
  OpenModel open{std::move(recipe), phase,   settings.threads,
                 nullptr,           nullptr, io::left_out_of_model(name, config)};
  open.run = std::make_unique<Run>(
      make_backend(settings.backend, open.threads, settings.thread_order), settings.seed);
  open.model = std::make_unique<Model>(*open.run, config, open.recipe, RecomputePolicy::none);
  io::copy_parameters(config, read, [&](size_t index, int64_t row, std::span<const float> values) {
    open.model->write_row(*open.run, index, row, values);
  });
  open.model->start_noise(*open.run);
  open.model->set_phase(*open.run, open.phase.index);
  return open;
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const io::ModelName& name) {
  io::require_model(name);
  const std::string place = io::tokenizer_place(name);
  return io::is_gguf(place) ? open_gguf_tokenizer(io::Gguf(place)) : open_tokenizer(place);
}

std::optional<std::string> note_of_tokenizer(const io::ModelName& name) {
  const std::string place = io::tokenizer_place(name);
  if (!io::is_gguf(place)) return {};
  return note_of_pattern(io::Gguf(place));
}

std::vector<int32_t> end_tokens_of(const io::ModelName& model, int64_t vocab) {
  return io::end_tokens(io::whole_model_settings(model, vocab));
}

std::vector<std::string> missing_of_training(const OpenModel& open) {
  std::vector<std::string> sentences;
  const std::vector<Linear*>& linears = open.model->linears();
  if (std::ranges::any_of(linears, [](const Linear* l) { return scales_by_history(*l); }))
    sentences.push_back(open.recipe.name() +
                        " scales by the history of training, which a model folder does not hold: "
                        "its scales are 1 here");
  const WeightNoise& noise = open.recipe.settings(0).weight_noise;
  if (noise.kind == NoiseKind::nipq)
    sentences.push_back(
        fmt::format("{} quantizes by bit-widths that training learns, which a model folder does "
                    "not hold: they are {:g} here",
                    open.recipe.name(), noise.b_init));
  return sentences;
}

}  // namespace ng
