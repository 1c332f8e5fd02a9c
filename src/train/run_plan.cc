#include "train/run_plan.h"

#include <optional>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "model/weights.h"
#include "train/global_batch.h"
#include "train/run_files.h"
#include "train/run_inputs.h"
#include "train/run_model.h"
#include "train/session_start.h"

namespace ng {
namespace {

/// Of each phase the share of the steps at which it begins, and its first step, counted from 1.
Json phases_of(const Recipe& recipe, int64_t steps) {
  Json phases = Json::array();
  for (const double start : recipe.phase_starts())
    phases.push_back({{"start", start}, {"first_step", steps_before(start, steps) + 1}});
  return phases;
}

/// The layers that each override and phase means.
Json layers_by_table(const Recipe& recipe, const ModelConfig& model) {
  Json all = Json::array();
  for (const RecipeMatch& match : recipe.matches(layers_of(model))) {
    Json one = {{"key", match.key}, {"place", as_utf8(match.place)}, {"layers", match.layers}};
    if (!match.patterns.empty()) one["patterns"] = match.patterns;
    if (!match.blocks.empty()) one["blocks"] = match.blocks;
    if (match.start > 0) one["start"] = match.start;
    if (match.is_optional) one["optional"] = true;
    all.push_back(std::move(one));
  }
  return all;
}

/// The data's event, with the files in full.
Json data_plan(const TrainingData& data, const std::optional<TextLikeness>& likeness,
               const std::string& tokenizer) {
  Json plan = data_event(data, likeness);
  const DataOrigin& origin = data.origin();
  plan["tokenizer"] = as_utf8(tokenizer);
  plan["train"].update(list_of(origin.train));
  plan["validation"]["text"] = validation_text(origin);
  if (origin.from == ValidationFrom::files)
    plan["validation"]["files"].update(list_of(origin.validation));
  return plan;
}

}  // namespace

Json run_plan(const RunConfig& given, Comm* comm, const std::string& resumed) {
  Json notes = Json::array();
  const auto notice = [&](const std::string& sentence) { notes.push_back(as_utf8(sentence)); };
  RunInputs inputs = open_inputs(resumed.empty() ? given : as_begun(given, resumed), comm, {});
  RunConfig& config = inputs.config;
  if (!resumed.empty())
    keep_global_batch(comm, join_path(resumed, kCheckpointsFolder), config, notice);
  const TrainingData& data = *inputs.data;
  const ModelConfig model =
      checked_run_model(config, inputs.recipe, *inputs.tokenizer, data, comm, notice);
  const double epochs = config.train.epochs;
  complete_run(config, model, data, comm, notice);
  const std::optional<TextLikeness> likeness = validation_likeness(data, *inputs.tokenizer);
  if (likeness && likeness->is_unlike()) notice(warning_of(*likeness));
  const int64_t groups = (comm == nullptr ? 1 : comm->ranks()) / config.train.tensor_parallel;
  const int64_t step =
      config.train.batch * config.train.accumulate * groups * run_length(config, model);
  return {{"run", as_utf8(config.place)},
          {"recipe", {{"name", inputs.recipe.name()}, {"hash", inputs.recipe.hash()}}},
          {"phases", phases_of(inputs.recipe, config.train.steps)},
          {"layers", layers_by_table(inputs.recipe, model)},
          {"model", model_identity(model)},
          {"data", data_plan(data, likeness, config.data.tokenizer)},
          {"seed", config.seed},
          {"twin", config.twin},
          {"steps", config.train.steps},
          {"epochs", epochs > 0 ? Json(epochs) : Json()},
          {"tokens_per_step", step},
          {"tokens", step * config.train.steps},
          {"notes", notes}};
}

}  // namespace ng
