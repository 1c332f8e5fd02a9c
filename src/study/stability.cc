// study stability: the largest learning rate that recipes bear, loss spikes and attention logits,
// as a proxy for divergence late in long training. [recipes.md §1.1, E9]
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "model/architecture.h"
#include "study/stability_runs.h"
#include "study/written.h"

namespace ng::study {
namespace {

/// A figure of every recipe at every rate.
struct StabilityMeasure {
  const char* name;
  const char* caption;
  const char* y_label;  ///< of its picture; null: it has none
  Value (*of)(const RateRuns& runs);
};

constexpr StabilityMeasure kStabilityMeasures[] = {
    {"loss",
     "Loss at the end, nats (mean of the last tenth of the steps); none where a run ended "
     "early",
     nullptr, [](const RateRuns& runs) { return runs.loss.value(); }},
    {"max_logit", "Largest attention logit |q·k|/√d at any step looked at", "logit",
     [](const RateRuns& runs) { return Value{runs.logit}; }},
    {"spikes", "Loss spikes: steps behind the warm-up, of all seeds", nullptr,
     [](const RateRuns& runs) { return Value{static_cast<double>(runs.spikes)}; }},
    {"excess", "Largest excess of a loss over its moving average, nats", nullptr,
     [](const RateRuns& runs) { return Value{runs.excess}; }},
    {"skipped", "Steps skipped, something not being finite, of all seeds", nullptr,
     [](const RateRuns& runs) { return Value{static_cast<double>(runs.skipped)}; }},
    {"grad_norm", "Largest gradient norm over the median one", "ratio",
     [](const RateRuns& runs) { return Value{runs.gradient}; }},
};

/// Peak rate by index; NaN for -1.
double rate_at(int64_t index) {
  return index < 0 ? kNone : peak_rates()[static_cast<size_t>(index)];
}
std::string rate_name(int64_t index) { return peak_rate_names()[static_cast<size_t>(index)]; }

/// The rate at which recipes are compared: the largest stable one of the first, else its best one,
/// else the smallest.
size_t common_rate(const StabilityTable& table) {
  const Ladder& first = table.ladders.front();
  const int64_t stable = largest_stable_rate(first);
  return static_cast<size_t>(std::max<int64_t>(stable >= 0 ? stable : best_rate(first), 0));
}

// ---------------------------------------------------------------- tables

/// A table of one model: its name begins with the architecture's.
std::string table_name(const StabilityTable& table, std::string_view name) {
  return fmt::format("{}_{}", parts_of(table.task.model.architecture).name, name);
}

Grid grid_of(const Stability& all, const StabilityTable& table, const StabilityMeasure& measure) {
  return Grid(table_name(table, measure.name), measure.caption, "peak learning rate",
              peak_rate_names(), all.recipes)
      .filled([&](size_t rate, size_t r) { return measure.of(table.ladders[r][rate]); });
}

Grid summary_of(const Stability& all, const StabilityTable& table) {
  const size_t common = common_rate(table);
  const std::string at = " at " + peak_rate_names()[common];
  Grid grid(table_name(table, "summary"),
            fmt::format("By recipe; the right half at a peak rate of {}, the largest stable one of "
                        "{} (its best one where none is stable)",
                        peak_rate_names()[common], all.recipes.front()),
            "recipe", all.recipes,
            {"largest stable rate", "best rate", "best loss", "rate sensitivity", "loss" + at,
             "spikes" + at, "max logit" + at, "largest/median gradient" + at});
  for (size_t r = 0; r < all.recipes.size(); ++r) {
    const Ladder& ladder = table.ladders[r];
    const RateRuns& runs = ladder[common];
    const int64_t best = best_rate(ladder);
    grid.at(r, 0).found = rate_at(largest_stable_rate(ladder));
    grid.at(r, 1).found = rate_at(best);
    if (best >= 0) grid.at(r, 2) = ladder[static_cast<size_t>(best)].loss.value();
    grid.at(r, 3).found = rate_sensitivity(ladder);
    grid.at(r, 4) = runs.loss.value();
    grid.at(r, 5).found = static_cast<double>(runs.spikes);
    grid.at(r, 6).found = runs.logit;
    grid.at(r, 7).found = runs.gradient;
  }
  return grid;
}

/// Values by step of the first seed's run at a rate; those of a run that ended early end early.
Grid steps_grid(const Stability& all, const StabilityTable& table, std::string_view name,
                std::string caption, const std::vector<int64_t>& steps,
                std::vector<double> StabilityRun::*values) {
  const size_t rate = common_rate(table);
  return Grid(table_name(table, name),
              fmt::format("{} at a peak rate of {}", caption, peak_rate_names()[rate]), "step",
              texts_of(steps), all.recipes, {.shown = false})
      .filled([&](size_t i, size_t r) {
        const std::vector<double>& found = table.ladders[r][rate].first.*values;
        return i < found.size() ? found[i] : kNone;
      });
}

// ---------------------------------------------------------------- pictures

double first_loss(const StabilityTable& table) {
  return table.ladders.front().front().start.mean();
}

Chart rates_chart(const Grid& grid, const char* y_label) {
  Chart chart = lines_of(grid, peak_rates(), "peak learning rate", y_label);
  chart.log_x = true;
  chart.x_ticks = {0.001, 0.01, 0.1};
  return chart;
}

/// Finite ones above 0, least and largest; (∞, 0) where there are none.
std::pair<double, double> range_of(const Chart& chart) {
  std::pair<double, double> range{HUGE_VAL, 0};
  for (const Series& series : chart.series)
    for (const double y : series.y)
      if (std::isfinite(y) && y > 0) range = {std::min(range.first, y), std::max(range.second, y)};
  return range;
}

bool stability_has_numbers(const Chart& chart) { return range_of(chart).second > 0; }

/// Decades on the axis where there are two, so that the axis has ticks.
bool spans_decades(const Chart& chart) {
  const auto [least, largest] = range_of(chart);
  return largest >= 100 * least;
}

/// What ended above the first loss is drawn at it.
Chart loss_chart(const StabilityTable& table, Grid losses) {
  for (Value& value : losses.values)
    if (!(value.found < first_loss(table))) value = {first_loss(table)};
  losses.caption =
      "Loss at the end by peak learning rate; the first loss stands for what is above it, or ended "
      "early";
  Chart chart = rates_chart(losses, "loss, nats");
  chart.from_zero = false;
  return chart;
}

// ---------------------------------------------------------------- sentences

/// Where even the best loss is about that of a model that ignores its context, training that has
/// collapsed to one is within the margin.
std::string too_short_text(const Stability& all, const StabilityTable& table) {
  const Ladder& first = table.ladders.front();
  const int64_t best = best_rate(first);
  if (best < 0) return "";
  const double loss = first[static_cast<size_t>(best)].loss.mean();
  if (loss < table.entropy - kStableMargin) return "";
  return fmt::format(
      " These runs are too short to tell rates apart: the best loss of {}, {:.2f}, is not {} nats "
      "below {:.2f}, which a model has that ignores its context.",
      all.recipes.front(), loss, kStableMargin, table.entropy);
}

/// "2^-5 for bf16, diffq; 2^-7 for fqt": the largest rates first.
std::string stable_text(const Stability& all, const StabilityTable& table) {
  std::vector<Names> by_rate(peak_rates().size() + 1);  // the first: no rate
  for (size_t r = 0; r < all.recipes.size(); ++r)
    by_rate[static_cast<size_t>(largest_stable_rate(table.ladders[r]) + 1)].push_back(
        all.recipes[r]);
  Names parts;
  for (auto i = static_cast<int64_t>(peak_rates().size()); i > 0; --i) {
    const Names& names = by_rate[static_cast<size_t>(i)];
    if (names.empty()) continue;
    const bool is_last = i == std::ssize(peak_rates());
    parts.push_back(
        fmt::format("{}{} for {}", is_last ? "at least " : "", rate_name(i - 1), list_of(names)));
  }
  std::string text;
  if (!parts.empty()) text = fmt::format("The largest stable rate is {}. ", fmt::join(parts, "; "));
  if (!by_rate.front().empty())
    text += fmt::format("No rate of the ladder is stable for {}. ", list_of(by_rate.front()));
  text += "Neighbouring rates are a factor of 2 apart, so that less is no difference.";
  return text + too_short_text(all, table);
}

std::string spikes_text(const Stability& all, const StabilityTable& table) {
  const size_t rate = common_rate(table);
  Names spiking, calm, logits;
  for (size_t r = 0; r < all.recipes.size(); ++r) {
    const RateRuns& runs = table.ladders[r][rate];
    if (runs.spikes > 0)
      spiking.push_back(
          fmt::format("{} ({}, by up to {:.2f} nats)", all.recipes[r], runs.spikes, runs.excess));
    else
      calm.push_back(all.recipes[r]);
    logits.push_back(fmt::format("{:.3g} ({})", runs.logit, all.recipes[r]));
  }
  std::string text = fmt::format("At a peak rate of {} the loss ", peak_rate_names()[rate]);
  if (!spiking.empty()) text += fmt::format("has spikes with {}", list_of(spiking));
  if (!calm.empty())
    text += fmt::format("{}has {} with {}", spiking.empty() ? "" : " and ",
                        spiking.empty() ? "no spikes" : "none", list_of(calm));
  return text + fmt::format(". The largest attention logit there is {}.", list_of(logits));
}

int64_t parameters_of(const ModelConfig& model) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_table(model)) count += spec.rows * spec.cols;
  return count;
}

std::string text_of(const Stability& all) {
  return all.run.empty() ? "a text that is made up" : "the text of " + on_one_line(all.run);
}

Section first_section(const Stability& all, const StabilityTask& task) {
  const std::string seeds =
      all.draws > 1 ? fmt::format(" and each of {} seeds of weights and rounding", all.draws) : "";
  const char* of_text =
      "The rate grows during the first tenth of the steps and falls along a cosine to a tenth of "
      "the peak; the optimizer is the recipe's, with a decay of 0.1 and gradients clipped to a "
      "norm of 1.";
  const char* of_run =
      "Schedule and optimizer settings are the run's, for its model and the recipes' optimizers.";
  return section_of("stability", "proxy", {},
                    {{"tokens", static_cast<double>(task.tokens()) * 1e-6},
                     {"text", text_of(all)},
                     {"steps", task.schedule.steps},
                     {"sequences", task.settings.sequences * task.settings.micros},
                     {"length", task.settings.length},
                     {"rates", std::ssize(peak_rates())},
                     {"lowest", rate_name(0)},
                     {"highest", rate_name(std::ssize(peak_rates()) - 1)},
                     {"seeds", seeds},
                     {"schedule", all.run.empty() ? of_text : of_run},
                     {"margin", kStableMargin},
                     {"weight", 1 / kSpikeWeight},
                     {"deviations", kSpikeDeviations},
                     {"looks", kLooksAtLogits},
                     {"skips", kMostSkips}});
}

// ---------------------------------------------------------------- the report

/// Losses and logits by step: pictures, and the numbers for the files.
void add_steps(Section& section, const Stability& all, const StabilityTable& table) {
  std::vector<int64_t> steps(static_cast<size_t>(table.task.schedule.steps));
  std::iota(steps.begin(), steps.end(), int64_t{0});
  Grid losses = steps_grid(all, table, "loss_by_step", "Loss", steps, &StabilityRun::losses);
  Grid logits = steps_grid(all, table, "logit_by_step", "Largest attention logit",
                           table.task.watched_steps(), &StabilityRun::logits);
  if (steps.size() > 1) {
    section.charts.push_back(lines_of(losses, "step", "loss, nats"));
    section.charts.back().from_zero = false;
    section.charts.push_back(lines_of(logits, "step", "logit"));
  }
  section.grids.push_back(std::move(losses));
  section.grids.push_back(std::move(logits));
}

Section model_section(const Stability& all, const StabilityTable& table) {
  const ModelConfig& model = table.task.model;
  const bool is_gpt2 = model.architecture == Architecture::gpt2;
  Section section = section_of("stability", "model", {summary_of(all, table)},
                               {{"architecture", is_gpt2 ? "GPT-2" : "Llama"},
                                {"blocks", model.layers},
                                {"width", model.width},
                                {"parameters", static_cast<double>(parameters_of(model)) * 1e-6},
                                {"stable", stable_text(all, table)},
                                {"spikes", spikes_text(all, table)}});
  for (const StabilityMeasure& measure : kStabilityMeasures) {
    Grid grid = grid_of(all, table, measure);
    if (&measure == kStabilityMeasures) section.charts.push_back(loss_chart(table, grid));
    if (measure.y_label != nullptr) {
      Chart chart = rates_chart(grid, measure.y_label);
      chart.log_y = spans_decades(chart);
      section.charts.push_back(std::move(chart));
    }
    section.grids.push_back(std::move(grid));
  }
  add_steps(section, all, table);
  std::erase_if(section.charts, [](const Chart& chart) { return !stability_has_numbers(chart); });
  return section;
}

Report stability(const Settings& settings) {
  const Stability all = stability_runs(settings);
  Report report{.name = "stability",
                .title = title_of("stability"),
                .sections = {first_section(all, all.tables.front().task)}};
  for (const StabilityTable& table : all.tables)
    report.sections.push_back(model_section(all, table));
  return report;
}

}  // namespace

extern const Study kStability;
const Study kStability{.name = "stability",
                       .summary =
                           "learning rates, loss spikes and attention logits by recipe: a proxy "
                           "for divergence late in training",
                       .run = stability,
                       .of_run = true,
                       .recipes = "bf16,gaussws-all,diffq,nipq,fqt,fqt-square",
                       .draws = 1,
                       .counts = "runs"};

}  // namespace ng::study
