#include "train/session_start.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "comm/agreement.h"
#include "io/hf/folder.h"
#include "io/hf/peft_start.h"
#include "run/backends.h"
#include "train/run_inputs.h"
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

RunInputs open_inputs(const RunConfig& config, Comm* comm, const ReadProgress& progress) {
  std::optional<RunInputs> inputs;
  on_all(comm, [&] {
    Recipe recipe = open_run_recipe(config);
    std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(config);
    std::unique_ptr<TrainingData> data = open_training_data(config, *tokenizer, progress);
    inputs = {std::move(recipe), std::move(tokenizer), std::move(data)};
  });
  return std::move(*inputs);
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
