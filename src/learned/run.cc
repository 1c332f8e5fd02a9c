#include "learned/run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/toml.h"
#include "io/checkpoint_files.h"
#include "io/hf/folder.h"
#include "learned/bits.h"
#include "model/model.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "train/checkpoint.h"
#include "train/run_files.h"
#include "train/run_inputs.h"

namespace ng {
namespace {

io::CheckpointEntry chosen_checkpoint(const std::string& run, std::optional<int64_t> step) {
  const std::string folder = join_path(run, kCheckpointsFolder);
  const std::vector<io::CheckpointEntry> there = io::list_checkpoints(folder);
  if (there.empty())
    throw Error({.place = folder,
                 .key = "",
                 .problem = "holds no checkpoint",
                 .remedy = "a run that saved one: model/ has no bit-widths"});
  if (!step) return there.front();
  std::vector<int64_t> steps;
  for (const io::CheckpointEntry& checkpoint : there) {
    if (checkpoint.step == *step) return checkpoint;
    steps.push_back(checkpoint.step);
  }
  throw Error({.place = folder,
               .key = "--step",
               .problem = fmt::format("no checkpoint of step {}", *step),
               .remedy = fmt::format("one of {}", fmt::join(steps, ", "))});
}

// A bit-width means what b_init and b_target say.
void require_own_recipe(const LearnedRun& run, const io::CheckpointEntry& checkpoint) {
  const std::string hash = recipe_hash_of(checkpoint.path);
  if (is_hash_of(run.recipe, hash)) return;
  const std::optional<Recipe> trained = recipe_of_checkpoint(checkpoint.path);
  throw Error(
      {.place = join_path(run.folder, kRunFile),
       .key = "recipe",
       .problem = fmt::format("{} has changed since step {}{}{}", toml_quote(run.config.recipe),
                              checkpoint.step, trained ? ": it was " : "",
                              trained ? difference_text(*trained, run.recipe) : ""),
       .remedy = "the recipe as it was, which the comments of run.toml show"});
}

size_t index_of_weight(Model& model, const std::string& layer) {
  const std::span<const Parameter> all = model.parameters();
  const auto found = std::ranges::find(all, layers::weight_of(layer),
                                       [](const Parameter& p) { return p.spec.name; });
  NG_CHECK(found != all.end(), layer);
  return static_cast<size_t>(found - all.begin());
}

void add_layers(LearnedRun& run, Model& model, const io::CheckpointEntry& checkpoint) {
  const io::Safetensors state(join_path(checkpoint.path, kStateFile));
  for (LearnedBits& learned : learned_bits(state, &run.recipe))
    run.layers.push_back({.name = learned.layer,
                          .parameter = index_of_weight(model, learned.layer),
                          .grid = learned.bits->grid,
                          .bits = std::move(learned.bits->b_t)});
}

}  // namespace

float LearnedLayer::most_bits() const { return *std::max_element(bits.begin(), bits.end()); }

void require_finite_bits(const LearnedLayer& layer, const std::string& place) {
  for (size_t i = 0; i < layer.bits.size(); ++i) {
    if (std::isfinite(layer.bits[i])) continue;
    const auto at = static_cast<int64_t>(i);
    throw Error({.place = place,
                 .key = layers::bits_of(layer.name),
                 .problem = fmt::format("b_t of block ({}, {}) is {}", at / layer.grid.across(),
                                        at % layer.grid.across(), layer.bits[i]),
                 .remedy = "a checkpoint whose bit-widths are finite: --step"});
  }
}

LearnedRun read_learned_run(const std::string& folder, std::optional<int64_t> step,
                            Threads threads) {
  RunConfig config = load_run_config(folder);
  const io::CheckpointEntry checkpoint = chosen_checkpoint(folder, step);
  Recipe recipe = open_run_recipe(config);
  std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(config);
  const ModelConfig sizes = run_model_config(config, *tokenizer);
  LearnedRun run{.folder = folder,
                 .config = std::move(config),
                 .recipe = std::move(recipe),
                 .tokenizer = std::move(tokenizer),
                 .model = sizes,
                 .step = checkpoint.step,
                 .weights = {},
                 .noise = {},
                 .layers = {}};
  require_own_recipe(run, checkpoint);  // else tensors are missing, and no line says why
  Run memory(make_backend("cpu", threads), run.config.seed);
  Model model(memory, sizes, run.recipe, RecomputePolicy::none);
  read_checkpoint_weights(checkpoint, memory);
  const size_t weights = parameter_table(sizes).size();
  for (size_t i = 0; i < model.parameters().size(); ++i)
    (i < weights ? run.weights : run.noise)
        .push_back(download(memory.backend(), model.parameters()[i].value()));
  add_layers(run, model, checkpoint);
  for (const LearnedLayer& layer : run.layers) require_finite_bits(layer, checkpoint.path);
  return run;
}

void require_noise(const LearnedRun& run) {
  if (!run.layers.empty()) return;
  throw Error(
      {.place = run.folder,
       .key = "weight_noise",
       .problem = fmt::format("recipe {} has none: no bit-width was learned", run.recipe.name()),
       .remedy = "a run with noise on its weights: gaussws-all, diffq or nipq"});
}

void require_same_architecture(const LearnedRun& run, const LearnedRun& other) {
  const auto json_of = [](const LearnedRun& of) {
    Json json = Json::parse(io::hf_config_text(of.model, "float32"));
    json.erase("initializer_range");  // of how training began
    return json;
  };
  const Json want = json_of(run), have = json_of(other);
  for (const auto& [key, value] : want.items())
    if (const Json there = have.value(key, Json()); there != value)
      throw Error(
          {.place = other.folder,
           .key = key,
           .problem = fmt::format("{}, but {} has {}", brief(there), run.folder, brief(value)),
           .remedy = "a run of the same model"});
}

}  // namespace ng
