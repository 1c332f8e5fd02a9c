// study stability: the largest learning rate that recipes bear, loss spikes and attention logits,
// as a proxy for divergence late in long training. [recipes.md §1.1, E9]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "model/architecture.h"
#include "study/loss_curve.h"
#include "study/stability_runs.h"

namespace ng::study {
namespace {

using Names = std::vector<std::string>;

/// A figure of every recipe at every rate.
struct Measure {
  const char* name;
  const char* caption;
  const char* y_label;  ///< of its picture; null: it has none
  Value (*of)(const RateRuns& runs);
};

Value number(double value) { return {value, kNone, kNone}; }

constexpr Measure kMeasures[] = {
    {"loss",
     "Loss at the end, nats (mean of the last tenth of the steps); none where a run ended "
     "early",
     nullptr,
     [](const RateRuns& runs) {
       return Value{runs.loss.mean(), runs.loss.error(), kNone};
     }},
    {"max_logit", "Largest attention logit |q·k|/√d at any step looked at", "logit",
     [](const RateRuns& runs) { return number(runs.logit); }},
    {"spikes", "Loss spikes: steps behind the warm-up, of all seeds", nullptr,
     [](const RateRuns& runs) { return number(static_cast<double>(runs.spikes)); }},
    {"excess", "Largest excess of a loss over its moving average, nats", nullptr,
     [](const RateRuns& runs) { return number(runs.excess); }},
    {"skipped", "Steps skipped, something not being finite, of all seeds", nullptr,
     [](const RateRuns& runs) { return number(static_cast<double>(runs.skipped)); }},
    {"grad_norm", "Largest gradient norm over the median one", "ratio",
     [](const RateRuns& runs) { return number(runs.gradient); }},
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

Grid grid_of(const Stability& all, const StabilityTable& table, const Measure& measure) {
  Grid grid(table_name(table, measure.name), measure.caption, "peak learning rate",
            peak_rate_names(), all.recipes);
  for (size_t recipe = 0; recipe < all.recipes.size(); ++recipe)
    for (size_t rate = 0; rate < peak_rates().size(); ++rate)
      grid.at(rate, recipe) = measure.of(table.ladders[recipe][rate]);
  return grid;
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
    if (best >= 0) {
      const Mean& loss = ladder[static_cast<size_t>(best)].loss;
      grid.at(r, 2) = {loss.mean(), loss.error(), kNone};
    }
    grid.at(r, 3).found = rate_sensitivity(ladder);
    grid.at(r, 4) = {runs.loss.mean(), runs.loss.error(), kNone};
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
  Names rows;
  for (const int64_t step : steps) rows.push_back(fmt::format("{}", step));
  Grid grid(table_name(table, name),
            fmt::format("{} at a peak rate of {}", caption, peak_rate_names()[rate]), "step",
            std::move(rows), all.recipes);
  grid.shown = false;
  for (size_t r = 0; r < all.recipes.size(); ++r) {
    const std::vector<double>& found = table.ladders[r][rate].first.*values;
    for (size_t i = 0; i < std::min(found.size(), steps.size()); ++i)
      grid.at(i, r).found = found[i];
  }
  return grid;
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

bool has_numbers(const Chart& chart) { return range_of(chart).second > 0; }

/// Decades on the axis where there are two, so that the axis has ticks.
bool spans_decades(const Chart& chart) {
  const auto [least, largest] = range_of(chart);
  return largest >= 100 * least;
}

/// What ended above the first loss is drawn at it.
Chart loss_chart(const StabilityTable& table, Grid losses) {
  for (Value& value : losses.values)
    if (!(value.found < first_loss(table))) value = number(first_loss(table));
  losses.caption =
      "Loss at the end by peak learning rate; the first loss stands for what is above it, or ended "
      "early";
  Chart chart = rates_chart(losses, "loss, nats");
  chart.from_zero = false;
  return chart;
}

Chart steps_chart(const Grid& grid, const std::vector<int64_t>& steps, const char* y_label) {
  return lines_of(grid, std::vector<double>(steps.begin(), steps.end()), "step", y_label);
}

// ---------------------------------------------------------------- sentences

std::string list_of(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

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
  return text + "Neighbouring rates are a factor of 2 apart, so that less is no difference.";
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

std::string proxy_text(const StabilityTask& task) {
  return fmt::format(
      "This is a proxy. What source 002 claims of divergence (a GPT-2 in BF16 that diverges where "
      "noise on the weights does not, noise on parts of a Llama that diverges after 30 billion "
      "tokens) cannot be seen on a small machine: each run here sees {:.2g} million tokens. "
      "Nothing below confirms or refutes those claims. What is measured is what is known to go "
      "before divergence and shows in small models at large learning rates: the largest rate that "
      "training bears, spikes of the loss, and the growth of attention logits.",
      static_cast<double>(task.tokens()) * 1e-6);
}

std::string setting_text(const Stability& all, const StabilityTask& task) {
  return fmt::format(
      "Every recipe trains every model from random weights on {} for {} steps of {} sequences of "
      "{} tokens, once for each of {} peak learning rates, {} to {}{}. {}",
      text_of(all), task.schedule.steps, task.settings.sequences * task.settings.micros,
      task.settings.length, peak_rates().size(), rate_name(0),
      rate_name(std::ssize(peak_rates()) - 1),
      all.draws > 1 ? fmt::format(" and each of {} seeds of weights and rounding", all.draws) : "",
      all.run.empty()
          ? "The rate grows during the first tenth of the steps and falls along a cosine to a "
            "tenth of the peak; the optimizer is the recipe's, with a decay of 0.1 and gradients "
            "clipped to a norm of 1."
          : "Schedule and optimizer settings are the run's, for its model and the recipes' "
            "optimizers.");
}

std::string definitions_text() {
  return fmt::format(
      "A rate is stable where, with every seed, no step was skipped for a value that is not "
      "finite, no loss behind the warm-up is above that of the first step, and the loss at the end "
      "(mean of the last tenth of the steps, over the seeds) is at most {} nats above that at the "
      "recipe's best rate. A spike is a step behind the warm-up whose loss exceeds the weighted "
      "moving average of the losses before it (weight 1/{:.0f}) by more than {} robust standard "
      "deviations of such excesses (1.4826 times their median distance from their median). Rate "
      "sensitivity is the mean over the rates of the loss at the end, at most the first loss, less "
      "the best (Wortsman et al. 2023, \"Small-scale proxies for large-scale Transformer training "
      "instabilities\"). Attention is looked at in the forward pass of about {} steps, spread "
      "evenly: |q·k|/√d over all layers, heads and pairs that the mask lets through. A run ends "
      "after {} skipped steps in a row.",
      kStableMargin, 1 / kSpikeWeight, kSpikeDeviations, kLooksAtLogits, kMostSkips);
}

// ---------------------------------------------------------------- the report

std::string heading_of(const ModelConfig& model) {
  const bool is_gpt2 = model.architecture == Architecture::gpt2;
  return fmt::format("{}: {} blocks of width {}, {:.2g} million parameters",
                     is_gpt2 ? "GPT-2" : "Llama", model.layers, model.width,
                     static_cast<double>(parameters_of(model)) * 1e-6);
}

/// Losses and logits by step: pictures, and the numbers for the files.
void add_steps(Section& section, const Stability& all, const StabilityTable& table) {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < table.task.schedule.steps; ++step) steps.push_back(step);
  const std::vector<int64_t> watched = table.task.watched_steps();
  Grid losses = steps_grid(all, table, "loss_by_step", "Loss", steps, &StabilityRun::losses);
  Grid logits = steps_grid(all, table, "logit_by_step", "Largest attention logit", watched,
                           &StabilityRun::logits);
  Chart chart = steps_chart(losses, steps, "loss, nats");
  chart.from_zero = false;
  if (steps.size() > 1) {
    section.charts.push_back(std::move(chart));
    section.charts.push_back(steps_chart(logits, watched, "logit"));
  }
  section.grids.push_back(std::move(losses));
  section.grids.push_back(std::move(logits));
}

Section section_of(const Stability& all, const StabilityTable& table) {
  Section section{.heading = heading_of(table.task.model),
                  .paragraphs = {stable_text(all, table), spikes_text(all, table)},
                  .grids = {summary_of(all, table)},
                  .charts = {}};
  for (const Measure& measure : kMeasures) {
    Grid grid = grid_of(all, table, measure);
    if (&measure == kMeasures) section.charts.push_back(loss_chart(table, grid));
    if (measure.y_label != nullptr) {
      Chart chart = rates_chart(grid, measure.y_label);
      chart.log_y = spans_decades(chart);
      section.charts.push_back(std::move(chart));
    }
    section.grids.push_back(std::move(grid));
  }
  add_steps(section, all, table);
  std::erase_if(section.charts, [](const Chart& chart) { return !has_numbers(chart); });
  return section;
}

Report stability(const Settings& settings) {
  const Stability all = stability_runs(settings);
  const StabilityTask& task = all.tables.front().task;
  Report report{.name = "stability",
                .title = "How large a learning rate each recipe bears: a proxy for late divergence",
                .sections = {}};
  report.sections.push_back(
      {.heading = "What this is, and what it is not",
       .paragraphs = {proxy_text(task), setting_text(all, task), definitions_text()},
       .grids = {},
       .charts = {}});
  for (const StabilityTable& table : all.tables) report.sections.push_back(section_of(all, table));
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
