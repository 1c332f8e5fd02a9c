#include "train/session_start.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/json.h"
#include "comm/agreement.h"
#include "io/hf/folder.h"
#include "io/hf/peft_start.h"
#include "model/weights.h"
#include "recipe/matches.h"
#include "recipe/warnings.h"
#include "run/backends.h"
#include "train/run_inputs.h"
#include "train/run_model.h"
#include "train/self_check.h"
#include "train/update_check.h"

namespace ng {

std::unique_ptr<TrainingData> open_training_data(const RunConfig& config,
                                                 const Tokenizer& tokenizer,
                                                 const ReadProgress& progress) {
  if (config.train.objective == Objective::dpo)
    return std::make_unique<PreferencePairs>(open_run_pairs(config, tokenizer));
  return std::make_unique<Corpus>(open_run_corpus(config, tokenizer, progress));
}

RunInputs open_inputs(RunConfig config, Comm* comm, const ReadProgress& progress) {
  std::optional<RunInputs> inputs;
  on_all(comm, [&] {
    Recipe recipe = open_run_recipe(config);
    std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(config);
    std::unique_ptr<TrainingData> data = open_training_data(config, *tokenizer, progress);
    inputs = {std::move(config), std::move(recipe), std::move(tokenizer), std::move(data)};
  });
  return std::move(*inputs);
}

ModelConfig checked_run_model(const RunConfig& config, const Recipe& recipe,
                              const Tokenizer& tokenizer, const TrainingData& data,
                              const Comm* comm,
                              const std::function<void(const std::string&)>& notice) {
  if (comm != nullptr)
    require_countable_micros(config.train.accumulate, comm->ranks(),
                             config.source_of({"train.accumulate"}), "train.accumulate");
  require_global_sums(config, recipe);
  const ModelConfig model = run_model_config(config, tokenizer);
  const ModelLayers named = layers_of(model);
  require_matches(recipe, named);
  for (const std::string& warning : recipe.warnings()) notice(warning);
  for (const std::string& warning : phase_warnings(recipe, named)) notice(warning);
  const int64_t length = run_length(config, model);
  require_run_length(data, config, length);
  for (const std::string& warning : warnings_of(data.origin())) notice(warning);
  for (const std::string& warning : data.warnings(length)) notice(warning);
  require_lora_numbers(config, recipe, model);
  require_tensor_parallel_run(config, recipe, model, comm);
  for (const std::string& sentence : check_run_init(config, model)) notice(sentence);
  return model;
}

void complete_run(RunConfig& config, const ModelConfig& model, const TrainingData& data,
                  const Comm* comm, const std::function<void(const std::string&)>& notice) {
  const int64_t ranks = comm == nullptr ? 1 : comm->ranks();
  const std::string counted =
      count_steps(config, data, run_length(config, model), ranks / config.train.tensor_parallel);
  if (!counted.empty()) notice(counted);
}

std::optional<TextLikeness> validation_likeness(const TrainingData& data,
                                                const Tokenizer& tokenizer) {
  if (!data.has_validation()) return {};
  ByteCounts train{}, validation{};
  add_bytes_of(data.some_tokens(DataPart::train), tokenizer, &train);
  add_bytes_of(data.some_tokens(DataPart::validation), tokenizer, &validation);
  return likeness(validation, train);
}

Json data_event(const TrainingData& data, const std::optional<TextLikeness>& likeness) {
  Json event = summary_of(data.origin());
  event["train"].update(data.counts(DataPart::train));
  event["validation"].update(data.counts(DataPart::validation));
  if (!likeness) return event;
  Json& validation = event["validation"];
  validation["bits_by_training_bytes"] = likeness->bits_by_others;
  validation["bits_by_own_bytes"] = likeness->own_bits;
  validation["is_unlike"] = likeness->is_unlike();
  return event;
}

std::unique_ptr<Backend> backend_of(const RunConfig& config, Threads threads) {
  return make_backend(config.train.backend, threads,
                      static_cast<uint64_t>(config.cuda.thread_order));
}

void check_gemms(const Model& model, const std::string& backend, Compute compute) {
  if (backend == "ref") return;
  std::vector<LinearRecipe> recipes;
  for (const Linear* linear : model.linears())
    recipes.insert(recipes.end(), linear->phases().begin(), linear->phases().end());
  self_check(*make_backend(backend, {1}), *make_backend("ref", {1}), recipes, compute);
}

void check_model_updates(Model& model, const std::string& backend, const OptimizerRecipe& optimizer,
                         const OptimizerSettings& settings) {
  if (backend == "ref") return;
  std::vector<Parameter> owned;
  for (const Parameter* parameter : model.owned()) owned.push_back(*parameter);
  check_updates(make_backend(backend, {1}), make_backend("ref", {1}), optimizer, settings, owned);
}

void require_steps_left(const io::CheckpointEntry& newest, int64_t steps) {
  if (newest.step <= steps) return;
  throw Error(
      {.place = newest.path,
       .key = "",
       .problem = fmt::format("{} steps are done, but train.steps = {}", newest.step, steps),
       .remedy = fmt::format("train.steps of at least {} to resume, or another --out to "
                             "start anew",
                             newest.step)});
}

std::string put_first_values(Run& run, Model& model, const RunConfig& config) {
  if (config.model.init.empty()) {
    model.initialize(run);
    return "";
  }
  ModelConfig base = model.config();
  base.lora = {};
  Checksum checksum;
  io::read_hf_weights(config.model.init, model.config(),
                      [&](size_t index, int64_t row, std::span<const float> values) {
                        checksum.add(std::as_bytes(values));
                        model.write_row(run, index, row, values);
                      });
  model.start_noise(run);
  model.start_adapters(run);
  if (!config.lora.init.empty() && model.config().lora.is_used())
    io::PeftStart(config.lora.init, base)
        .read([&](size_t index, int64_t row, std::span<const float> values) {
          model.write_row(run, index, row, values);
        });
  return checksum.hex();
}

void put_reference_values(Run& run, Model& reference, const Model& policy,
                          const RunConfig& config) {
  if (!reference.is_stored_as_trained()) (void)put_first_values(run, reference, config);
  reference.take_values(run, policy);
}

}  // namespace ng
