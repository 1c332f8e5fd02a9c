#include "study/stability_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/median.h"
#include "compare/compare.h"
#include "run/backends.h"
#include "study/attention_logits.h"
#include "study/gradient_probe.h"
#include "train/run_files.h"
#include "train/run_inputs.h"

namespace ng::study {
namespace {

constexpr int64_t kStabilitySteps = 200;
constexpr int64_t kLeastSteps = 20;
constexpr int64_t kTextBatches = 200;
constexpr int kLeastPower = -10, kMostPower = -1;
constexpr size_t kMostRecipes = 8;  // a chart has no more series
constexpr double kEndOfRate = 0.1;  // of the peak, where no run says otherwise

// As many parameters as the Llama of generated_task().
ModelConfig as_gpt2(ModelConfig c) {
  c.architecture = Architecture::gpt2;
  c.ffn = 4 * c.width;
  c.attention_bias = c.mlp_bias = c.norm_bias = true;
  return c;
}

Schedule standard_schedule(int64_t steps) {
  return {.kind = ScheduleKind::cosine,
          .steps = steps,
          .warmup = steps / 10,
          .lr = 1,
          .min_lr = kEndOfRate};
}

StabilityTask generated(const ProbeTask& probe, const ModelConfig& model, int64_t steps) {
  StabilityTask task{
      .model = model,
      .settings = {},
      .schedule = standard_schedule(steps),
      .fill = [fill = probe.fill](int64_t step, int64_t, const BatchSpans& to) { fill(step, to); }};
  task.settings.sequences = probe.sequences;
  task.settings.length = model.context;
  return task;
}

// ---------------------------------------------------------------- a run's model and text

RunConfig config_of(const std::string& run) {
  RunConfig config = is_file(run) ? RunConfig::load(run) : load_run_config(run);
  if (config.train.epochs > 0)
    config.refuse({"train.steps"}, fmt::format("\"{} epochs\"", config.train.epochs),
                  "a number of steps: those of a study are counted by it");
  return config;
}

// The run's, stretched to so many steps.
Schedule schedule_of(const RunConfig& config, int64_t steps) {
  Schedule schedule = config.schedule();
  schedule.warmup = schedule.warmup * steps / std::max<int64_t>(schedule.steps, 1);
  schedule.steps = steps;
  schedule.min_lr = schedule.lr > 0 ? schedule.min_lr / schedule.lr : kEndOfRate;
  schedule.lr = 1;
  return schedule;
}

StabilityTask task_of_run(const RunConfig& config, int64_t steps) {
  RunText text = text_of_run(config);
  StepSettings settings = step_settings(config, text.model);
  settings.masked = text.masked;
  return {.model = text.model,
          .settings = settings,
          .schedule = schedule_of(config, steps),
          .fill = std::move(text.fill)};
}

// --steps of the command line, or the share of `standard`.
int64_t steps_of(const Settings& settings, int64_t standard) {
  const std::vector<int64_t>& asked = settings.run.steps;
  if (asked.empty()) return settings.part_of(standard, std::min(standard, kLeastSteps));
  if (asked.size() == 1 && asked.front() >= 1) return asked.front();
  throw Error({.place = "study stability",
               .key = "--steps",
               .problem = fmt::format("{}", fmt::join(asked, ",")),
               .remedy = "one number, 1 or more: how long each run is"});
}

std::vector<StabilityTask> tasks_of(const Settings& settings) {
  if (!settings.run.folder.empty()) {
    const RunConfig config = config_of(settings.run.folder);
    return {task_of_run(config, steps_of(settings, config.train.steps))};
  }
  const ProbeTask probe = generated_task(settings.seed, kTextBatches);
  const int64_t steps = steps_of(settings, kStabilitySteps);
  return {generated(probe, probe.model, steps), generated(probe, as_gpt2(probe.model), steps)};
}

// A recipe that cannot be is known before the work.
std::vector<std::string> labels_of(const std::vector<std::string>& recipes) {
  if (recipes.size() > kMostRecipes)
    throw Error({.place = "study stability",
                 .key = "--recipes",
                 .problem = fmt::format("{} recipes", recipes.size()),
                 .remedy = fmt::format("at most {}", kMostRecipes)});
  return recipe_labels(recipes);
}

double end_of(const RateRuns& runs) {
  const double start = runs.start.mean();
  return runs.loss.mean() < start ? runs.loss.mean() : start;
}

// ---------------------------------------------------------------- losses

constexpr double kDeviationsOfMedian = 1.4826;  // 1/Φ⁻¹(¾): σ of a normal over its median |x - µ|

double robust_deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return kDeviationsOfMedian * median(distances);
}

// Of the steps from `first` on; the first loss has nothing before it.
std::vector<double> excesses(std::span<const double> losses, int64_t first) {
  std::vector<double> found;
  double average = kNone;
  for (size_t t = 0; t < losses.size(); ++t) {
    const double loss = losses[t];
    if (!std::isfinite(loss)) continue;
    if (std::isnan(average)) {
      average = loss;
      continue;
    }
    const double excess = loss - average;
    if (static_cast<int64_t>(t) >= first) found.push_back(excess);
    average += kSpikeWeight * excess;
  }
  return found;
}

}  // namespace

double final_loss(std::span<const double> losses) {
  if (losses.empty()) return kNone;
  Mean mean;
  for (const double loss : losses.last(std::max<size_t>(losses.size() / 10, 1))) mean.add(loss);
  return mean.mean();
}

LossSpikes loss_spikes(std::span<const double> losses, int64_t first) {
  const std::vector<double> found = excesses(losses, first);
  if (found.empty()) return {};
  LossSpikes spikes{.count = 0,
                    .largest = std::max(*std::max_element(found.begin(), found.end()), 0.0),
                    .deviation = robust_deviation(found)};
  for (const double excess : found)
    if (excess > kSpikeDeviations * spikes.deviation) ++spikes.count;
  return spikes;
}

bool exceeds_start(std::span<const double> losses, int64_t first) {
  for (auto t = static_cast<size_t>(first); t < losses.size(); ++t)
    if (losses[t] > losses.front()) return true;
  return false;
}

double largest_over_median(std::span<const double> values) {
  if (values.empty()) return kNone;
  return *std::max_element(values.begin(), values.end()) /
         median(std::vector<double>(values.begin(), values.end()));
}

// ---------------------------------------------------------------- the ladder

const std::vector<double>& peak_rates() {
  static const std::vector<double> kRates = [] {
    std::vector<double> rates;
    for (const int power : integers(kLeastPower, kMostPower))
      rates.push_back(std::ldexp(1.0, power));
    return rates;
  }();
  return kRates;
}

Names peak_rate_names() { return texts_of(integers(kLeastPower, kMostPower), "2^{}"); }

bool StabilityTask::is_watched(int64_t at) const {
  return at % std::max<int64_t>((schedule.steps + kLooksAtLogits - 1) / kLooksAtLogits, 1) == 0 ||
         at == schedule.steps - 1;
}

std::vector<int64_t> StabilityTask::watched_steps() const {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < schedule.steps; ++step)
    if (is_watched(step)) steps.push_back(step);
  return steps;
}

double token_entropy(const StabilityTask& task) {
  const auto size = static_cast<size_t>(task.settings.sequences * task.settings.length);
  std::vector<int32_t> inputs(size), targets(size);
  std::vector<int32_t> first_keys(task.settings.document_mask ? size : 0);
  std::vector<float> mask(size);
  std::vector<double> counts(static_cast<size_t>(task.model.vocab));
  for (int64_t step = 0; step < task.schedule.steps; ++step)
    for (int64_t micro = 0; micro < task.settings.micros; ++micro) {
      task.fill(step, micro, {inputs, targets, mask, first_keys});
      for (size_t i = 0; i < size; ++i)
        counts[static_cast<size_t>(targets[i])] += task.settings.masked ? mask[i] : 1;
    }
  double all = 0, sum = 0;
  for (const double count : counts) {
    all += count;
    if (count > 0) sum += count * std::log(count);
  }
  return std::log(all) - sum / all;
}

StabilityRun train_once(const StabilityTask& task, const std::string& recipe_name, double peak_rate,
                        uint64_t seed, Threads threads) {
  const Recipe recipe = Recipe::load(recipe_name);
  auto backend = std::make_unique<LogitWatch>(make_backend("cpu", threads));
  LogitWatch& attention = *backend;
  Run run(std::move(backend), seed);
  Model model(run, task.model, recipe, RecomputePolicy::none);
  Trainer trainer(run, model, recipe, task.settings);
  model.initialize(run);
  Schedule schedule = task.schedule;
  schedule.lr *= peak_rate;
  schedule.min_lr *= peak_rate;
  StabilityRun found;
  int64_t skips = 0;  // in a row
  for (int64_t step = 0; step < schedule.steps && skips < kMostSkips; ++step) {
    const double done = static_cast<double>(step) / static_cast<double>(schedule.steps);
    if (recipe.phase_at(done) != trainer.phase()) trainer.set_phase(recipe.phase_at(done));
    for (int64_t micro = 0; micro < task.settings.micros; ++micro)
      task.fill(step, micro, trainer.train_tokens(micro));
    if (task.is_watched(step)) attention.start();
    const StepReport report = trainer.step(step, static_cast<float>(learning_rate(schedule, step)));
    if (task.is_watched(step)) found.logits.push_back(attention.finish());
    found.losses.push_back(report.loss);
    if (!report.skipped) found.norms.push_back(report.grad_norm);
    skips = report.skipped ? skips + 1 : 0;
    found.skipped += report.skipped ? 1 : 0;
  }
  return found;
}

void RateRuns::add(const StabilityTask& task, StabilityRun run) {
  const bool ended_early = std::ssize(run.losses) < task.schedule.steps;
  start.add(run.losses.front());
  loss.add(ended_early ? kNone : final_loss(run.losses));
  const LossSpikes found = loss_spikes(run.losses, task.warm());
  spikes += found.count;
  excess = std::max(excess, found.largest);
  for (const double value : run.logits) logit = std::isnan(value) ? value : std::max(logit, value);
  if (!run.norms.empty()) gradient = std::max(gradient, largest_over_median(run.norms));
  skipped += run.skipped;
  exceeds = exceeds || exceeds_start(run.losses, task.warm());
  if (first.losses.empty()) first = std::move(run);
}

int64_t best_rate(const Ladder& ladder) {
  int64_t best = -1;
  for (int64_t i = 0; i < std::ssize(ladder); ++i) {
    const double loss = ladder[static_cast<size_t>(i)].loss.mean();
    if (std::isnan(loss)) continue;
    if (best < 0 || loss < ladder[static_cast<size_t>(best)].loss.mean()) best = i;
  }
  return best;
}

int64_t largest_stable_rate(const Ladder& ladder) {
  const int64_t best = best_rate(ladder);
  if (best < 0) return -1;
  const double limit = ladder[static_cast<size_t>(best)].loss.mean() + kStableMargin;
  for (int64_t i = std::ssize(ladder) - 1; i >= 0; --i) {
    const RateRuns& runs = ladder[static_cast<size_t>(i)];
    if (runs.skipped == 0 && !runs.exceeds && runs.loss.mean() <= limit) return i;
  }
  return -1;
}

double rate_sensitivity(const Ladder& ladder) {
  const int64_t best = best_rate(ladder);
  if (best < 0) return kNone;
  Mean ends;
  for (const RateRuns& runs : ladder) ends.add(end_of(runs));
  return ends.mean() - end_of(ladder[static_cast<size_t>(best)]);
}

Stability stability_runs(const Settings& settings) {
  const RunSubject& subject = settings.run;
  Stability result{.run = subject.folder,
                   .recipes = labels_of(subject.recipes),
                   .draws = subject.draws,
                   .tables = {}};
  const std::vector<std::string> recipes = subject.changed_recipes();
  for (StabilityTask& task : tasks_of(settings)) {
    const double entropy = token_entropy(task);
    result.tables.push_back({.task = std::move(task), .ladders = {}, .entropy = entropy});
  }
  Progress progress(settings, std::ssize(result.tables) * std::ssize(recipes) *
                                  std::ssize(peak_rates()) * subject.draws);
  for (StabilityTable& table : result.tables)
    for (const std::string& recipe : recipes) {
      Ladder& ladder = table.ladders.emplace_back();
      for (const double rate : peak_rates()) {
        RateRuns& runs = ladder.emplace_back();
        for (int64_t draw = 0; draw < subject.draws; ++draw) {
          const uint64_t seed = settings.seed + static_cast<uint64_t>(draw);
          runs.add(table.task, train_once(table.task, recipe, rate, seed, settings.threads));
          progress.step();
        }
      }
    }
  return result;
}

}  // namespace ng::study
