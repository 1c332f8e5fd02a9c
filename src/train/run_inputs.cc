#include "train/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/toml.h"
#include "base/units.h"
#include "io/hf/folder.h"
#include "io/hf/peft_folder.h"
#include "io/hf/peft_start.h"
#include "model/adapters.h"
#include "model/parts_of_numbers.h"
#include "model/tensor_parallel.h"
#include "recipe/layer_names.h"
#include "train/run_keys.h"

namespace ng {
Recipe open_run_recipe(const RunConfig& config) {
  try {
    return Recipe::load(config.recipe);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.place == config.recipe)  // a file that cannot be read
      parts.problem = config.tried("recipe", parts.place) + ": " + parts.problem;
    else if (parts.place != "recipe")
      throw;  // of the recipe's own file
    parts.place = config.source_of({"recipe"});
    parts.key = "recipe";
    throw Error(parts);
  }
}

std::unique_ptr<Tokenizer> open_run_tokenizer(const RunConfig& config) {
  try {
    return open_tokenizer(config.data.tokenizer);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.key != "tokenizer") throw;  // of the tokenizer's own file
    parts.problem = config.tried("data.tokenizer", parts.place) + ": " + parts.problem;
    parts.place = config.source_of({"data.tokenizer"});
    parts.key = "data.tokenizer";
    throw Error(parts);
  }
}

TextRules text_rules(const RunConfig& config) {
  return {.documents = {.text_key = config.data.text_key,
                        .chat = config.data.chat,
                        .special = config.data.special_tokens,
                        .ignored_keys = config.data.ignored_keys},
          .bare_uint16 = config.data.tokens == TokensAs::uint16};
}

namespace {

// What `open` makes of [data]; errors say where the key was given.
template <class Open>
auto open_run_data(const RunConfig& config, const Open& open) {
  DataConfig data;
  data.place = config.place;
  data.train = config.data.train;
  data.train_folder = config.folder_of("data.train");
  data.validation_folder = config.folder_of("data.validation");
  data.validation_share = config.data.validation_share;
  data.validation_split = config.data.validation_split;
  data.validation = config.data.validation_files;
  data.validation_tokens = config.data.validation_tokens;
  data.rules = text_rules(config);
  try {
    return open(data);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.place != config.place) throw;  // of a text
    parts.place = config.source_of({parts.key});
    throw Error(parts);
  }
}

}  // namespace

Corpus open_run_corpus(const RunConfig& config, const Tokenizer& tokenizer,
                       const ReadProgress& progress) {
  if (config.train.objective == Objective::dpo)
    config.refuse({"train.objective"}, "\"dpo\", whose pairs are no text",
                  "a run that learns from texts");
  Corpus corpus = open_run_data(
      config, [&](const DataConfig& data) { return open_corpus(data, tokenizer, progress); });
  if (config.train.document_mask) corpus.keep_documents_apart();
  return corpus;
}

PreferencePairs open_run_pairs(const RunConfig& config, const Tokenizer& tokenizer) {
  if (config.data.validation_tokens > 0)
    config.refuse({"data.validation_tokens"}, fmt::format("{}", config.data.validation_tokens),
                  "0 where train.objective is \"dpo\": data.validation says how many pairs");
  return open_run_data(config, [&](const DataConfig& data) { return open_pairs(data, tokenizer); });
}

// The data knows how long it is, the run file what it is made of.
void require_run_length(const TrainingData& data, const RunConfig& config, int64_t context) {
  try {
    data.require_length(context);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.place != config.place) throw;  // of a line
    const RunData& named = config.data;
    const bool training = parts.key == "data.train" || named.validation_files.empty();
    parts.place = config.source_of({"data.train", "data.validation", "train.length",
                                    "model.context", "model.preset", "model.init"});
    parts.key +=
        fmt::format(" = {}", fmt::join(training ? named.train : named.validation_files, ", "));
    throw Error(parts);
  }
}

int64_t run_length(const RunConfig& config, const ModelConfig& model) {
  const int64_t length = config.train.length;
  if (length > model.context)
    config.refuse({"train.length", "model.context", "model.init"}, fmt::format("{}", length),
                  fmt::format("at most the model's context, {}", model.context));
  return length == 0 ? model.context : length;
}

namespace {

/// What the run file says of adapters, or the folder that they come from.
Lora run_lora(const RunConfig& config, const ModelConfig& base) {
  const std::string& folder = config.lora.init;
  if (folder.empty()) return config.lora.adapters;
  if (!io::is_peft_folder(folder))
    config.refuse({"lora.init"},
                  fmt::format("{} holds no adapters", config.tried("lora.init", folder)),
                  fmt::format("a folder with an {}", io::kPeftConfig));
  return io::PeftStart(folder, base).lora();
}

}  // namespace

ModelConfig run_model_config(const RunConfig& config, const Tokenizer& tokenizer) {
  const std::string& folder = config.model.init;
  if (!folder.empty() && !is_folder(folder))
    config.refuse({"model.init"},
                  is_file(folder) ? toml_quote(folder) + " is a file"
                                  : "no folder " + config.tried("model.init", folder),
                  "a model folder: config.json, model.safetensors; narrowgauge import makes one of "
                  "a .gguf");
  if (io::is_peft_folder(folder))
    config.refuse({"model.init"}, fmt::format("{} holds adapters alone", toml_quote(folder)),
                  "their base, and they in lora.init; or a whole model: narrowgauge import FOLDER "
                  "OUT adds them to their base");
  ModelConfig model =
      folder.empty() ? config.model_config(tokenizer.vocab()) : io::read_hf_config(folder);
  if (!folder.empty()) io::require_vocabulary(folder, model, tokenizer.vocab());
  require_batch(model,
                {.sequences = config.train.batch,
                 .length = run_length(config, model),
                 .micros = config.train.accumulate},
                config.source_of({"train.batch", "train.accumulate", "model.context"}),
                "train.batch");
  model.lora = run_lora(config, model);
  if (model.lora.is_used())
    validate_lora(model, [&](const std::string& key) { return config.source_of({key}); });
  return model;
}

void require_lora_numbers(const RunConfig& config, const Recipe& recipe, const ModelConfig& model) {
  if (!model.lora.is_used()) return;
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    config.refuse({"lora.rank", "recipe"},
                  fmt::format("{}, but recipe {} has {}", model.lora.rank, recipe.name(), what),
                  remedy);
  };
  using Kind = OptimizerRecipe::Kind;
  const Kind kind = recipe.settings(0).optimizer.kind;
  if (kind == Kind::adam_mini || kind == Kind::muon)
    refuse(fmt::format("optimizer.kind = \"{}\", which knows the heads of whole matrices",
                       kind == Kind::muon ? "muon" : "adam_mini"),
           "adamw or sgd");
  for (const ParameterSpec& spec : parameter_table(model)) {
    if (spec.is_vector) continue;
    const std::string_view layer = layers::layer_of(spec.name);
    const LayerPlace place{
        .name = layer, .block = layers::place_of(layer).block, .depth = model.layers};
    if (recipe.layer(place, 0).weight_noise.kind != NoiseKind::none)
      refuse(fmt::format("weight_noise in {}, whose weights are frozen", layer), "none");
  }
}

void require_global_sums(const RunConfig& config, const Recipe& recipe) {
  if (config.train.deterministic != Determinism::global) return;
  const GradientRecipe& gradient = recipe.settings(0).gradient;
  const bool narrow = !gradient.communicate.is_fp32();
  if (!narrow && gradient.accumulate == Compute::fp32) return;
  config.refuse({"train.deterministic"},
                fmt::format("\"global\", but recipe {} has gradient.{}, which depends on how many "
                            "ranks there are",
                            recipe.name(), narrow ? "communicate" : "accumulate"),
                "\"ranks\", or a recipe that adds and sends gradients in FP32");
}

void require_tensor_parallel_run(const RunConfig& config, const Recipe& recipe,
                                 const ModelConfig& model, const Comm* comm) {
  const int64_t parts = config.train.tensor_parallel;
  const int ranks = comm == nullptr ? 1 : comm->ranks();
  if (parts == 1) return;
  constexpr const char* kKey = "train.tensor_parallel";
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    config.refuse({kKey}, problem, remedy);
  };
  if (ranks % parts != 0)
    refuse(fmt::format("{} of {} rank{}", parts, ranks, ranks == 1 ? "" : "s"),
           "a divisor of the ranks that mpirun or srun starts");
  if (config.train.deterministic == Determinism::global)
    refuse(fmt::format("{} with train.deterministic = \"global\", but sums over parts of layers "
                       "depend on how many there are",
                       parts),
           "train.deterministic = \"ranks\"");
  if (config.train.objective == Objective::dpo)
    refuse(fmt::format("{} with train.objective = \"dpo\", whose pairs lie whole on a rank", parts),
           "1: ranks that share the pairs");
  const int64_t tokens = config.train.batch * run_length(config, model);
  try {
    require_tensor_parallel(model, parts, kKey);
    require_numbers_in_parts(model, recipe, {.parts = parts, .tokens = tokens}, kKey);
  } catch (const Error& error) {
    refuse(error.parts().problem, error.parts().remedy);
  }
}

void require_countable_micros(int64_t micros, int64_t ranks, std::string_view place,
                              std::string key) {
  constexpr int64_t kMost = int64_t{1} << 24;  // bits of a random counter
  if (micros <= kMost / ranks) return;
  throw Error({.place = std::string(place),
               .key = std::move(key),
               .problem = fmt::format("{} on {} ranks", micros, ranks),
               .remedy = fmt::format("at most {} micro-batches in a step", kMost)});
}

std::string count_steps(RunConfig& config, const TrainingData& data, int64_t length,
                        int64_t groups) {
  RunTrain& train = config.train;
  if (train.epochs == 0) return "";
  const double epochs = std::exchange(train.epochs, 0);
  const bool of_pairs = train.objective == Objective::dpo;
  const int64_t sequences = train.batch * train.accumulate * groups;
  const int64_t step = of_pairs ? sequences / 2 : sequences * length;
  const std::string unit = of_pairs ? "pairs" : "tokens";
  const double steps =
      std::ceil(epochs * static_cast<double>(data.epoch_items()) / static_cast<double>(step));
  const std::string given = fmt::format("\"{} epochs\"", epochs);
  if (steps > static_cast<double>(kMaxSteps))
    config.refuse({"train.steps"}, fmt::format("{}, which are {} steps", given, steps),
                  fmt::format("at most {} steps", kMaxSteps));
  train.steps = std::max<int64_t>(static_cast<int64_t>(steps), 1);
  return fmt::format("train.steps = {} are {} of {} {}: there are {} to train on", given,
                     counted(train.steps, "step"), count_text(step), unit,
                     count_text(data.epoch_items()));
}

std::string steps_text(const RunTrain& train) {
  return train.epochs > 0 ? fmt::format("{} epochs", train.epochs) : count_text(train.steps);
}

StepSettings step_settings(const RunConfig& config, const ModelConfig& model) {
  const RunTrain& train = config.train;
  StepSettings settings;
  settings.sequences = train.batch;
  settings.length = run_length(config, model);
  settings.micros = train.accumulate;
  settings.clip = train.clip;
  settings.determinism = train.deterministic;
  settings.document_mask = train.document_mask;
  if (train.objective == Objective::dpo) settings.dpo = config.dpo;
  settings.optimizer.beta1 = static_cast<float>(train.beta1);
  settings.optimizer.beta2 = static_cast<float>(train.beta2);
  settings.optimizer.eps = static_cast<float>(train.eps);
  settings.optimizer.weight_decay = static_cast<float>(train.weight_decay);
  return settings;
}

}  // namespace ng
