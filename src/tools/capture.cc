#include "tools/capture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/output_file.h"
#include "nn/linear_observer.h"
#include "recipe/layer_names.h"
#include "recipe/matches.h"
#include "run/transfer.h"
#include "tools/tensor_output.h"
#include "train/run_files.h"
#include "train/session.h"

namespace ng {
namespace {

constexpr const char* kCaptureMark = "capture";  // of the metadata of what is written here

std::vector<float> values_of(const Backend& backend, const Source& source) {
  return download(backend, source.is_stored() ? ConstView(source.stored().view) : source.values());
}

/// Rows of tokens of all micro-batches of a step. Pieces come in order; a head that goes through a
/// micro-batch twice shows the same rows again.
class TokenRows {
 public:
  void put(const Moment& moment, int64_t tokens, std::vector<float> rows, int64_t cols) {
    const int64_t micro = moment.micro - moment.first_micro;
    if (micro != micro_ || row_ == tokens) row_ = 0;
    micro_ = micro;
    values_.resize(static_cast<size_t>(moment.micros * tokens * cols));
    std::copy(rows.begin(), rows.end(), values_.begin() + (micro * tokens + row_) * cols);
    row_ += std::ssize(rows) / cols;
  }
  [[nodiscard]] std::vector<float>& values() { return values_; }

 private:
  int64_t micro_ = 0, row_ = 0;
  std::vector<float> values_;
};

/// What one layer worked on.
struct LayerMatrices {
  TokenRows x, dy, dx;
  std::vector<float> weight, dw;
};

class Capturer final : public LinearObserver {
 public:
  Capturer(Session& session, std::vector<Linear*> layers)
      : session_(session), layers_(std::move(layers)), tokens_(tokens_of(session)) {
    for (Linear* layer : layers_) {
      of_[layer].weight = download(backend(), layer->weight().value());
      layer->set_observer(this);
    }
    session_.trainer().set_gradient_observer([this] { take_tied(); });
  }
  ~Capturer() override {
    session_.trainer().set_gradient_observer({});
    for (Linear* layer : layers_) layer->set_observer(nullptr);
  }
  Capturer(const Capturer&) = delete;
  Capturer& operator=(const Capturer&) = delete;

  void input(const Linear& layer, const Source& x) override {
    put(of_[&layer].x, values_of(backend(), x), layer.inputs());
  }
  void output_gradient(const Linear& layer, const Source& dy, const BackwardProduct& dx) override {
    put(of_[&layer].dy, values_of(backend(), dy), layer.outputs());
    const TemporaryTensor own(backend(), *dx.y().element, dx.y().rows, dx.y().cols);
    backend().execute(dx.last_into(own.view()));
    put(of_[&layer].dx, own.download(), layer.inputs());
  }
  void weight_gradient(const Linear& layer, const ConstView& sum) override {
    of_[&layer].dw = download(backend(), sum);
  }

  /// All that was seen, as tensors by name.
  [[nodiscard]] OutputTensors tensors(std::vector<CapturedTensor>& names) {
    OutputTensors all;
    for (const Linear* layer : layers_) {
      LayerMatrices& seen = of_.at(layer);
      const int64_t k = layer->inputs(), n = layer->outputs();
      const auto add = [&](const char* what, int64_t cols, std::vector<float>& values) {
        if (values.empty()) return;
        const int64_t rows = std::ssize(values) / cols;
        names.push_back({fmt::format("{}.{}", layer->name(), what), rows, cols});
        all.add(names.back().name, {rows, cols}) = std::move(values);
      };
      add("x", k, seen.x.values());
      add("weight", k, seen.weight);
      add("dy", n, seen.dy.values());
      add("dx", k, seen.dx.values());
      add("dw", k, seen.dw);
    }
    return all;
  }

 private:
  static int64_t tokens_of(Session& session) {
    const StepSettings& step = session.trainer().settings();
    return step.sequences * step.length;
  }
  [[nodiscard]] Backend& backend() { return session_.run().backend(); }
  void put(TokenRows& rows, std::vector<float> values, int64_t cols) const {
    rows.put(session_.run().moment(), tokens_, std::move(values), cols);
  }
  // Contributions of the embedding and of the head mix where there are several micro-batches.
  void take_tied() {
    for (Linear* layer : layers_)
      if (layer->weight().spec.name == layers::weight_of(layers::kEmbed) && !layer->is_frozen())
        of_[layer].dw = download(backend(), layer->weight().gradient());
  }

  Session& session_;
  std::vector<Linear*> layers_;
  int64_t tokens_;  // of a micro-batch
  std::map<const Linear*, LayerMatrices> of_;
};

/// Remembers the last step.
class Replay final : public SessionObserver {
 public:
  Replay(const CaptureProgress& on_step, const CaptureNotice& on_notice)
      : progress_(on_step), notice_(on_notice) {}
  void notice(const std::string& sentence) override { notice_(sentence); }
  void step(const StepMetrics& metrics) override {
    last = metrics;
    progress_(metrics.step, total);
  }

  StepMetrics last;
  int64_t total = 0;

 private:
  const CaptureProgress& progress_;
  const CaptureNotice& notice_;
};

std::vector<Linear*> chosen_layers(const Model& model, const std::vector<std::string>& patterns) {
  ModelLayers known{.names = {}, .depth = model.config().layers};
  for (const Linear* layer : model.linears()) known.names.push_back(layer->name());
  for (const std::string& pattern : patterns)
    if (std::ranges::none_of(known.names, [&](const auto& n) { return glob_matches(pattern, n); }))
      throw Error({.place = "--layers",
                   .key = "",
                   .problem = fmt::format("\"{}\" means no linear layer", pattern),
                   .remedy = near_pattern(pattern, known)});
  std::vector<Linear*> chosen;
  for (Linear* layer : model.linears())
    if (std::ranges::any_of(patterns,
                            [&](const auto& p) { return glob_matches(p, layer->name()); }))
      chosen.push_back(layer);
  return chosen;
}

/// The loss that a run noted of a step, counted from 1.
std::optional<double> recorded_loss(const std::string& run, int64_t step) {
  std::ifstream file(join_path(run, kMetricsFile));
  std::optional<double> loss;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json_line(line);
    if (json.is_object() && json.value("step", int64_t{-1}) == step && json.contains("loss") &&
        json["loss"].is_number())
      loss = json["loss"].get<double>();
  }
  return loss;
}

int64_t step_of(const RunConfig& config, const std::string& run, const CaptureSettings& settings) {
  const std::string folder = join_path(run, kCheckpointsFolder);
  const std::vector<io::CheckpointEntry> saved = io::list_checkpoints(folder);
  const int64_t step = settings.step.value_or(saved.empty() ? 0 : saved.front().step);
  if (step <= config.train.steps) return step;
  throw Error({.place = "--step",
               .key = "",
               .problem = fmt::format("{} of a run of {} steps", step, config.train.steps),
               .remedy = fmt::format("0 to {}: the batch is that of the step after it",
                                     config.train.steps)});
}

std::map<std::string, std::string> metadata_of(const std::string& run, Session& session,
                                               const CaptureReport& report,
                                               const std::vector<Linear*>& layers) {
  std::vector<std::string> names;
  for (const Linear* layer : layers) names.push_back(layer->name());
  return {{kCaptureMark, fmt::format("{}", fmt::join(names, ","))},
          {"run", run},
          {"recipe", report.recipe},
          {"recipe_hash", session.recipe().hash()},
          {"phase", std::to_string(report.phase.index)},
          {"step", std::to_string(report.step)},
          {"seed", std::to_string(session.config().seed)},
          {"loss", fmt::format("{}", report.loss)},
          {"sequences", std::to_string(report.sequences)},
          {"length", std::to_string(report.length)},
          {"micro_batches", std::to_string(report.micros)},
          {"blocks", std::to_string(session.model().config().layers)}};
}

void require_capture(const RunConfig& config, const std::string& out) {
  require_not_read(config, std::array{out});
  require_target(out, "a capture",
                 [](const std::string& path) { return io::has_metadata(path, kCaptureMark); });
}

}  // namespace

CaptureReport capture(const std::string& run, const std::string& out,
                      const CaptureSettings& settings, const CaptureProgress& progress,
                      const CaptureNotice& notice) {
  RunConfig config = load_run_config(run);
  if (settings.threads >= 0) config.train.threads = settings.threads;
  require_capture(config, out);
  CaptureReport report;
  report.step = step_of(config, run, settings);
  Replay replay(progress, notice);
  replay.total = report.step + 1;
  Session session(config, {.out = run, .resume = true, .takes_other_recipe = true}, replay);
  const std::vector<Linear*> layers = chosen_layers(session.model(), settings.layers);
  report.checkpoint = session.replay_to(report.step);
  Capturer capturer(session, layers);
  session.replay_step(report.step);

  const StepSettings& batch = session.trainer().settings();
  report.recipe = session.recipe().name();
  report.phase = phase_of(session.recipe(), session.trainer().phase());
  report.sequences = batch.sequences;
  report.length = batch.length;
  report.micros = batch.micros;
  report.loss = replay.last.loss;
  report.is_skipped = replay.last.skipped;
  report.recorded = recorded_loss(run, report.step + 1);
  capturer.tensors(report.tensors).write(out, metadata_of(run, session, report, layers));
  return report;
}

}  // namespace ng
