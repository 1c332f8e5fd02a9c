#include "study/run_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "recipe/layer_names.h"
#include "study/gradient_probe.h"
#include "train/checkpoint.h"
#include "train/compare.h"
#include "train/run_files.h"
#include "train/run_inputs.h"

namespace ng::study {
namespace {

constexpr size_t kMostCheckpoints = 8;  // a chart has no more series

std::string steps_text(const std::vector<io::CheckpointEntry>& checkpoints) {
  std::vector<int64_t> steps;
  for (const io::CheckpointEntry& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  return fmt::format("{}", fmt::join(steps, ", "));
}

// Those asked for, ascending; all where none is named.
std::vector<io::CheckpointEntry> chosen_checkpoints(const RunSubject& run) {
  const std::string folder = join_path(run.folder, "checkpoints");
  std::vector<io::CheckpointEntry> there = io::list_checkpoints(folder);
  std::reverse(there.begin(), there.end());
  if (there.empty())
    throw Error(
        {.place = folder,
         .key = "",
         .problem = "holds no checkpoint",
         .remedy = "a run that saved some: train.checkpoint_every, train.keep_checkpoints"});
  for (const int64_t step : run.steps)
    if (std::none_of(there.begin(), there.end(), [&](const auto& c) { return c.step == step; }))
      throw Error({.place = folder,
                   .key = "--steps",
                   .problem = fmt::format("no checkpoint of step {}", step),
                   .remedy = "some of " + steps_text(there)});
  if (!run.steps.empty())
    std::erase_if(there, [&](const io::CheckpointEntry& c) {
      return std::find(run.steps.begin(), run.steps.end(), c.step) == run.steps.end();
    });
  if (there.size() > kMostCheckpoints)
    throw Error({.place = folder,
                 .key = "--steps",
                 .problem = fmt::format("{} checkpoints", there.size()),
                 .remedy = fmt::format("at most {} of {}", kMostCheckpoints, steps_text(there))});
  return there;
}

// One draw has no standard error.
void require_draws(int64_t draws) {
  if (draws < 2)
    throw Error({.place = "study gradients",
                 .key = "--draws",
                 .problem = fmt::format("{}", draws),
                 .remedy = "2 or more"});
}

// One batch of the run's text, whatever number is asked for.
ProbeTask task_of(const RunConfig& config, uint64_t seed) {
  const std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(config);
  const auto corpus = std::make_shared<const Corpus>(open_run_corpus(config, *tokenizer));
  const ModelConfig model = run_model_config(config, *tokenizer);
  const int64_t length = run_length(config, model);
  require_run_length(*corpus, config, length);
  const SequenceRange range{.first = 0, .count = config.train.batch, .context = length};
  const auto step = static_cast<uint32_t>(config.train.steps);
  const auto fill = [=, data_seed = config.seed](int64_t, const BatchSpans& to) {
    corpus->train_batch(data_seed, step, range, to);
  };
  return {.model = model,
          .sequences = config.train.batch,
          .length = length,
          .seed = seed,
          .masked = corpus->has_mask(),
          .documents = config.train.document_mask,
          .fill = fill};
}

/// "blocks.0.attn.q.weight" is of kind "attn.q".
std::string kind_of(const std::string& matrix) {
  return std::string(layers::place_of(layers::layer_of(matrix)).part);
}

/// Which matrices are of which kind, the kinds in the order in which they first appear.
struct Kinds {
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> matrices;
};

Kinds kinds_of(const std::vector<GradientProbe::Matrix>& matrices) {
  Kinds kinds;
  for (size_t m = 0; m < matrices.size(); ++m) {
    const std::string name = kind_of(matrices[m].name);
    const auto at = std::find(kinds.names.begin(), kinds.names.end(), name);
    const auto k = static_cast<size_t>(at - kinds.names.begin());
    if (at == kinds.names.end()) {
      kinds.names.push_back(name);
      kinds.matrices.emplace_back();
    }
    kinds.matrices[k].push_back(m);
  }
  return kinds;
}

GradientDraws undrawn(GradientProbe& exact) {
  std::vector<int64_t> sizes;
  for (const GradientProbe::Matrix& matrix : exact.matrices()) sizes.push_back(matrix.size);
  return {exact.gradient(0, 0), std::move(sizes)};
}

/// What a recipe makes of the weights of `exact`, whose own gradient is in `none`.
GradientErrors errors_of(GradientProbe& probe, const GradientProbe& exact,
                         const GradientDraws& none, const Kinds& kinds, int64_t draws) {
  probe.copy_weights(exact);
  if (probe.scales_by_history()) (void)probe.gradient(0, draws);
  GradientDraws drawn = none;
  GradientErrors errors;
  for (int64_t draw = 0; draw < draws; ++draw) {
    drawn.add(probe.gradient(0, draw));
    errors.loss.add(probe.loss() - exact.loss());
  }
  errors.all = drawn.errors();
  for (const std::vector<size_t>& matrices : kinds.matrices)
    errors.kinds.push_back(drawn.errors(matrices));
  return errors;
}

}  // namespace

RunGradients run_gradients(const Settings& settings) {
  const RunSubject& subject = settings.run;
  require_draws(subject.draws);
  if (subject.folder.empty())
    throw Error({.place = "study gradients",
                 .key = "RUN",
                 .problem = "no run is named",
                 .remedy = "the folder of a run: run.toml, checkpoints/"});
  const RunConfig config = load_run_config(subject.folder);
  const std::vector<io::CheckpointEntry> checkpoints = chosen_checkpoints(subject);
  RunGradients result;
  result.recipes = recipe_labels(subject.recipes);
  const ProbeTask task = task_of(config, settings.seed);
  result.trained_in = config.recipe;
  result.model = task.model;
  result.sequences = task.sequences;
  result.found.resize(subject.recipes.size());
  Progress progress(settings, std::ssize(checkpoints) * std::ssize(subject.recipes));
  for (const io::CheckpointEntry& checkpoint : checkpoints) {
    GradientProbe exact("fp32", task, settings.threads);
    read_checkpoint_weights(checkpoint, exact.run());
    const GradientDraws none = undrawn(exact);
    const Kinds kinds = kinds_of(exact.matrices());
    result.kinds = kinds.names;
    result.steps.push_back(checkpoint.step);
    result.losses.push_back(exact.loss());
    const double done =
        static_cast<double>(checkpoint.step) / static_cast<double>(config.train.steps);
    for (size_t r = 0; r < subject.recipes.size(); ++r) {
      GradientProbe probe(subject.recipes[r], task, settings.threads);
      probe.set_progress(done);
      result.found[r].push_back(errors_of(probe, exact, none, kinds, subject.draws));
      progress.step();
    }
  }
  return result;
}

}  // namespace ng::study
