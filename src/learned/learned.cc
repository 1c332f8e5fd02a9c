#include "learned/learned.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "learned/files.h"
#include "math/round.h"
#include "model/weights.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "train/bit_widths.h"
#include "train/run_files.h"
#include "train/run_inputs.h"
#include "train/run_model.h"

namespace ng {
namespace {

constexpr int64_t kWindowsAtOnce = 8;  // as `eval` does, for the same bits

/// A text and how it is called.
struct NamedText {
  std::string name;
  Corpus corpus;
};

NamedText text_of(const LearnedRun& run, const std::string& data) {
  if (!data.empty()) {
    TextRules rules = text_rules(run.config);
    rules.documents.begin = TextBegin::as_the_tokenizer_says;  // as eval has it
    return {data, corpus_to_evaluate(data, *run.tokenizer, rules)};
  }
  NamedText text{"validation text of " + run.folder, open_run_corpus(run.config, *run.tokenizer)};
  if (text.corpus.validation_tokens() >= 2) return text;
  throw Error({.place = join_path(run.folder, kRunFile),
               .key = "data.validation",
               .problem = "the run has no validation text",
               .remedy = "--data FILE"});
}

// Of layers with noise in `run`, where those are another run's weights too.
double bytes_of(const LearnedRun& run, const std::vector<Operand>& casts) {
  double bytes = 0;
  for (size_t i = 0; i < casts.size(); ++i) bytes += stored_bytes(run.layers[i], casts[i]);
  return bytes;
}

double bytes_by_block(const LearnedRun& run, int least_bits) {
  double bytes = 0;
  for (const LearnedLayer& layer : run.layers) bytes += stored_bytes_by_block(layer, least_bits);
  return bytes;
}

std::vector<LearnedRow> rows_of(const LearnedRun& run,
                                const std::vector<const LearnedFormat*>& formats, int least_bits) {
  std::vector<LearnedRow> rows;
  for (size_t i = 0; i < formats.size(); ++i) {
    const LearnedLayer& layer = run.layers[i];
    std::vector<int64_t> blocks_in(learned_formats().size());
    for (const LearnedFormat* format : formats_by_block(layer, least_bits))
      ++blocks_in[static_cast<size_t>(format - learned_formats().data())];
    rows.push_back({.layer = layer.name,
                    .rows = layer.grid.rows,
                    .cols = layer.grid.cols,
                    .blocks = std::ssize(layer.bits),
                    .mean_bits = figures_of(layer.bits).mean,
                    .most_bits = layer.most_bits(),
                    .format = std::string(formats[i]->name),
                    .bytes_by_layer = stored_bytes(layer, formats[i]->cast),
                    .bytes_by_block = stored_bytes_by_block(layer, least_bits),
                    .blocks_in = std::move(blocks_in)});
  }
  return rows;
}

/// Share of a layer's weights that a cast to a format of fewer bits than BF16's left otherwise.
double narrowed_share(const std::vector<float>& weights, const std::vector<float>& cast,
                      const LearnedFormat& format) {
  if (format.bits() >= bf16_format().bits) return 0;
  size_t narrowed = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    narrowed += cast[i] != round_to_bf16(weights[i]) ? 1 : 0;
  return static_cast<double>(narrowed) / static_cast<double>(weights.size());
}

/// Evaluates weights under recipes.
class Evaluations {
 public:
  Evaluations(const LearnedSettings& settings, const ModelConfig& model, const Corpus& corpus,
              const LearnedProgress& progress)
      : settings_(settings), model_(model), corpus_(corpus), progress_(progress) {
    require_batch(model, {.sequences = kWindowsAtOnce, .length = model.context}, settings.run, "");
  }

  /// In the recipe's last phase. `noise` is what a recipe with noise has learned. `stored`, where
  /// it is given, gets the values that were evaluated.
  Evaluation loss_of(const std::string& what, const Recipe& recipe, const HostWeights& weights,
                     const HostWeights& noise, HostWeights* stored) const {
    Run run(make_backend(settings_.backend, settings_.threads, settings_.thread_order), 1);
    Model model(run, model_, recipe, RecomputePolicy::none);
    const size_t count = model.parameters().size();
    NG_CHECK(count == weights.size() + noise.size(), count, weights.size(), noise.size());
    for (size_t i = 0; i < count; ++i)
      write(run, model, i, i < weights.size() ? weights[i] : noise[i - weights.size()]);
    model.set_phase(run, static_cast<int>(recipe.phase_starts().size()) - 1);
    const Evaluation evaluation = evaluate(run, model, corpus_, kWindowsAtOnce, model_.context,
                                           [&](int64_t done, int64_t windows) {
                                             if (progress_) progress_(what, done, windows);
                                           });
    if (stored == nullptr) return evaluation;
    for (size_t i = 0; i < weights.size(); ++i)
      stored->push_back(download(run.backend(), model.parameters()[i].value()));
    return evaluation;
  }

 private:
  static void write(Run& run, Model& model, size_t index, const std::vector<float>& values) {
    const ParameterSpec& spec = model.parameters()[index].spec;
    const std::span<const float> all = values;
    for (int64_t row = 0; row < spec.rows; ++row)
      model.write_row(
          run, index, row,
          all.subspan(static_cast<size_t>(row * spec.cols), static_cast<size_t>(spec.cols)));
  }

  const LearnedSettings& settings_;
  const ModelConfig& model_;
  const Corpus& corpus_;
  const LearnedProgress& progress_;
};

/// All casts of a run, each evaluated.
class LearnedStudy {
 public:
  LearnedStudy(const LearnedRun& run, const Evaluations& evaluations, LearnedReport& report)
      : run_(run), evaluations_(evaluations), report_(report) {}

  /// Of the weights as they are.
  void add_uncast() {
    add("uncast", uncast_bytes(), parsed(plain_recipe_text(run_)), run_.weights);
  }
  /// Returns the values as they are stored.
  HostWeights add_by_layer(const Recipe& recipe, double bytes) {
    HostWeights stored;
    add("by layer", bytes, recipe, run_.weights, &stored);
    return stored;
  }
  HostWeights add_by_block(double bytes) {
    HostWeights weights = by_block(run_.weights);
    add("by block", bytes, parsed(plain_recipe_text(run_)), weights);
    return weights;
  }
  /// In one format of at most so many bytes; nothing where that was done before.
  void add_uniform(double most_bytes) {
    const UniformCast uniform = uniform_cast(run_.layers, most_bytes);
    const std::string name = fmt::format("{} throughout", uniform.name);
    for (const LearnedLoss& loss : report_.losses)
      if (loss.cast == name) return;
    const std::vector<Operand> casts(run_.layers.size(), uniform.cast);
    add(name, bytes_of(run_, casts), parsed(recipe_text(run_, "uniform", casts)), run_.weights);
  }
  /// As it was trained, and in the formats of this run's layers and blocks.
  void add_rival(const LearnedRun& rival, const Recipe& layered, double layer_bytes,
                 double block_bytes) {
    const Recipe plain = parsed(plain_recipe_text(run_));
    const auto last = static_cast<int>(rival.recipe.phase_starts().size()) - 1;
    add_of(rival.folder, "uncast", uncast_bytes(), rival.recipe, rival.weights, rival.noise);
    report_.losses.back().numbers = ng::text_of(rival.recipe, phase_of(rival.recipe, last));
    add_of(rival.folder, "by layer", layer_bytes, layered, rival.weights);
    add_of(rival.folder, "by block", block_bytes, plain, by_block(rival.weights));
  }

 private:
  /// Weights of this model with each block in the format that this run's has learned.
  [[nodiscard]] HostWeights by_block(HostWeights weights) const {
    for (const LearnedLayer& layer : run_.layers) {
      std::vector<float>& values = weights[layer.parameter];
      values = cast_by_block(layer, values, report_.settings.least_bits);
    }
    return weights;
  }
  [[nodiscard]] double uncast_bytes() const { return 4.0 * static_cast<double>(report_.noised); }
  [[nodiscard]] Recipe parsed(const std::string& text) const {
    return Recipe::parse(text, learned_recipe_path(report_.settings.out));
  }
  void add(const std::string& cast, double bytes, const Recipe& recipe, const HostWeights& weights,
           HostWeights* stored = nullptr) {
    add_of(run_.folder, cast, bytes, recipe, weights, {}, stored);
  }
  void add_of(const std::string& run, const std::string& cast, double bytes, const Recipe& recipe,
              const HostWeights& weights, const HostWeights& noise = {},
              HostWeights* stored = nullptr) {
    report_.losses.push_back({.run = run,
                              .cast = cast,
                              .numbers = plain_numbers(run_),
                              .bytes = bytes,
                              .evaluation = evaluations_.loss_of(fmt::format("{} {}", run, cast),
                                                                 recipe, weights, noise, stored)});
  }

  const LearnedRun& run_;
  const Evaluations& evaluations_;
  LearnedReport& report_;
};

LearnedReport first_report(const LearnedRun& run, const LearnedSettings& settings,
                           const std::string& data) {
  LearnedReport report{.settings = settings,
                       .step = run.step,
                       .recipe = run.recipe.name(),
                       .phase = measured_phase(run.recipe, {}),
                       .matches = run.recipe.matches(layers_of(run.model)),
                       .data = data,
                       .layers = {},
                       .losses = {}};
  for (const std::vector<float>& values : run.weights) report.parameters += std::ssize(values);
  for (const LearnedLayer& layer : run.layers) report.noised += layer.size();
  return report;
}

std::vector<LearnedRun> read_rivals(const LearnedRun& run, const LearnedSettings& settings) {
  std::vector<LearnedRun> rivals;
  for (const std::string& folder : settings.against) {
    rivals.push_back(read_learned_run(folder, std::nullopt, settings.threads));
    require_same_architecture(run, rivals.back());
  }
  return rivals;
}

}  // namespace

LearnedResult learn_formats(const LearnedSettings& settings, const LearnedProgress& progress) {
  require_own_learned(settings.out);
  LearnedRun run = read_learned_run(settings.run, settings.step, settings.threads);
  require_noise(run);
  const NamedText text = text_of(run, settings.data);
  const std::vector<LearnedRun> rivals = read_rivals(run, settings);
  const auto formats = formats_by_layer(run.layers, settings.least_bits);
  std::vector<Operand> casts;
  for (const LearnedFormat* format : formats) casts.push_back(format->cast);
  const std::string toml = learned_recipe_comment(settings.run, run.step, settings.least_bits) +
                           recipe_text(run, "learned", casts);
  const Recipe recipe = Recipe::parse(toml, learned_recipe_path(settings.out));
  LearnedReport report = first_report(run, settings, text.name);
  report.layers = rows_of(run, formats, settings.least_bits);
  const double by_layer = bytes_of(run, casts), by_block = bytes_by_block(run, settings.least_bits);
  const Evaluations evaluations(settings, run.model, text.corpus, progress);
  LearnedStudy study(run, evaluations, report);
  study.add_uncast();
  HostWeights layered = study.add_by_layer(recipe, by_layer);
  for (size_t i = 0; i < formats.size(); ++i) {
    const size_t parameter = run.layers[i].parameter;
    report.layers[i].narrowed =
        narrowed_share(run.weights[parameter], layered[parameter], *formats[i]);
  }
  HostWeights blocked = study.add_by_block(by_block);
  study.add_uniform(by_layer);
  study.add_uniform(by_block);
  for (const LearnedRun& rival : rivals) study.add_rival(rival, recipe, by_layer, by_block);
  auto begun = run_model_settings(run.config, *run.tokenizer);
  return {.report = std::move(report),
          .model = run.model,
          .recipe = toml,
          .weights = settings.by_block ? std::move(blocked) : std::move(layered),
          .tokenizer = std::move(run.tokenizer),
          .settings = std::move(begun)};
}

}  // namespace ng
