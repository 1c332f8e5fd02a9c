// Gradients of a training run in narrow numbers against FP32: projection, cosine and SQNR at its
// checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/run_gradients.h"

namespace ng::study {
namespace {

constexpr double kClose = 0.01;      // of a projection to 1: "within 1 %"
constexpr double kMovedLoss = 0.01;  // nats

double root_mean_square(const Mean& mean) { return std::sqrt(mean.mean_square()); }

/// A figure of the table.
struct Measure {
  const char* name;
  const char* caption;
  int digits;
  Value (*of)(const DrawnErrors& errors);
};
constexpr Measure kMeasures[] = {
    {"projection", "Projection <g, g₀>/<g₀, g₀> on the FP32 gradient: 1 where nothing is biased", 5,
     [](const DrawnErrors& e) {
       return Value{e.projection.mean(), e.projection.error(), kNone};
     }},
    {"cosine", "Cosine of the angle to the FP32 gradient", 5,
     [](const DrawnErrors& e) {
       return Value{e.cosine.mean(), e.cosine.error(), kNone};
     }},
    {"sqnr", "SQNR of one draw, dB", 4,
     [](const DrawnErrors& e) {
       return Value{sqnr(root_mean_square(e.error)), kNone, kNone};
     }},
    {"sqnr_of_mean", "SQNR of the mean of all draws, dB: noise averages away, bias stays", 4,
     [](const DrawnErrors& e) {
       return Value{sqnr(e.error_of_mean), kNone, kNone};
     }},
    {"bias", "Relative error that no number of draws averages away (estimated)", 3,
     [](const DrawnErrors& e) {
       return Value{e.bias, kNone, kNone};
     }},
};

std::vector<std::string> step_names(const RunGradients& run) {
  std::vector<std::string> names;
  for (const int64_t step : run.steps) names.push_back(fmt::format("step {}", step));
  return names;
}

/// A measure of all layers, by recipe and checkpoint.
Grid grid_of(const RunGradients& run, const Measure& measure) {
  Grid grid(measure.name, measure.caption, "recipe", run.recipes, step_names(run));
  grid.digits = measure.digits;
  for (size_t r = 0; r < run.recipes.size(); ++r)
    for (size_t s = 0; s < run.steps.size(); ++s) grid.at(r, s) = measure.of(run.found[r][s].all);
  return grid;
}

/// The same by kind of layer: for the files.
Grid kinds_grid_of(const RunGradients& run, const Measure& measure) {
  std::vector<std::string> rows;
  for (const std::string& recipe : run.recipes)
    for (const std::string& kind : run.kinds) rows.push_back(fmt::format("{}: {}", recipe, kind));
  Grid grid(fmt::format("{}_by_kind", measure.name), measure.caption, "recipe: layers",
            std::move(rows), step_names(run));
  grid.shown = false;
  for (size_t r = 0; r < run.recipes.size(); ++r)
    for (size_t k = 0; k < run.kinds.size(); ++k)
      for (size_t s = 0; s < run.steps.size(); ++s)
        grid.at(r * run.kinds.size() + k, s) = measure.of(run.found[r][s].kinds[k]);
  return grid;
}

/// What the forward pass loses.
Grid loss_grid_of(const RunGradients& run) {
  Grid grid("loss", "Loss of the batch in the recipe's numbers, less that in FP32, nats", "recipe",
            run.recipes, step_names(run));
  grid.digits = 3;
  for (size_t r = 0; r < run.recipes.size(); ++r)
    for (size_t s = 0; s < run.steps.size(); ++s) {
      const Mean& loss = run.found[r][s].loss;
      grid.at(r, s) = {loss.mean(), loss.error(), kNone};
    }
  return grid;
}

// ---------------------------------------------------------------- sentences

using Names = std::vector<std::string>;

std::string list_of(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

/// Where a projection stands, two standard errors taken as certain.
enum class Standing : uint8_t { one, below, above, open };
Standing standing_of(const Mean& projection) {
  const double error = std::isnan(projection.error()) ? 0 : 2 * projection.error();
  const double low = projection.mean() - error;
  const double high = projection.mean() + error;
  if (low >= 1 - kClose && high <= 1 + kClose) return Standing::one;
  if (high < 1 - kClose) return Standing::below;
  return low > 1 + kClose ? Standing::above : Standing::open;
}

std::string projections_text(const RunGradients& run) {
  Names groups[4];  // by Standing
  for (size_t r = 0; r < run.recipes.size(); ++r) {
    const Mean& projection = run.found[r].back().all.projection;
    groups[static_cast<size_t>(standing_of(projection))].push_back(
        fmt::format("{} ({:.3f})", run.recipes[r], projection.mean()));
  }
  constexpr const char* kSaid[] = {"lies within 1 % of 1 for", "is lower for", "is higher for",
                                   "is not decided by so few draws for"};
  Names parts;
  for (size_t g = 0; g < std::size(groups); ++g)
    if (!groups[g].empty()) parts.push_back(fmt::format("{} {}", kSaid[g], list_of(groups[g])));
  return fmt::format("At step {} the projection {}.", run.steps.back(), fmt::join(parts, "; it "));
}

std::string noise_text(const RunGradients& run, int64_t draws) {
  Names bias, noise;
  for (size_t r = 0; r < run.recipes.size(); ++r) {
    const DrawnErrors& e = run.found[r].back().all;
    const double one = sqnr(root_mean_square(e.error));
    if (std::isnan(one)) continue;
    const std::string text =
        fmt::format("{} ({:.1f} to {:.1f} dB)", run.recipes[r], one, sqnr(e.error_of_mean));
    (e.bias * e.bias < 0.5 * e.error.mean_square() ? noise : bias).push_back(text);
  }
  std::string text;
  if (!noise.empty())
    text = fmt::format(
        "Most of the error differs from draw to draw and averages out (SQNR of one draw to that of "
        "the mean of {}) in {}. ",
        draws, list_of(noise));
  if (!bias.empty())
    text +=
        fmt::format("At least half of the squared error is the same in every draw and stays in {}.",
                    list_of(bias));
  return text;
}

/// The recipe whose projection moves most between the first and the last checkpoint.
std::string change_text(const RunGradients& run) {
  if (run.steps.size() < 2) return "";
  const auto ends = [&](size_t r) {
    return std::pair(run.found[r].front().all.projection.mean(),
                     run.found[r].back().all.projection.mean());
  };
  size_t most = 0;
  for (size_t r = 1; r < run.recipes.size(); ++r)
    if (std::abs(ends(r).second - ends(r).first) > std::abs(ends(most).second - ends(most).first))
      most = r;
  return fmt::format(" From step {} to step {} it changes most for {}, from {:.3f} to {:.3f}.",
                     run.steps.front(), run.steps.back(), run.recipes[most], ends(most).first,
                     ends(most).second);
}

/// Which recipes are worse before any gradient is taken.
std::string loss_text(const RunGradients& run) {
  Names moved;
  for (size_t r = 0; r < run.recipes.size(); ++r) {
    const double loss = run.found[r].back().loss.mean();
    if (std::abs(loss) > kMovedLoss)
      moved.push_back(fmt::format("{} ({:+.3f})", run.recipes[r], loss));
  }
  if (moved.empty())
    return fmt::format("No recipe moves the loss of the batch by more than {} nats at step {}.",
                       kMovedLoss, run.steps.back());
  return fmt::format(
      "The forward pass alone moves the loss of the batch at step {} by more than "
      "{} nats in {}. The gradient is then that of another function, and its "
      "projection need not be 1 even where no rounding of it is biased: the run "
      "was not trained in these numbers, and its weights are not fitted to them.",
      run.steps.back(), kMovedLoss, list_of(moved));
}

std::vector<std::string> paragraphs_of(const RunGradients& run, int64_t draws) {
  Names losses;
  for (size_t s = 0; s < run.steps.size(); ++s)
    losses.push_back(fmt::format("{:.3f} at step {}", run.losses[s], run.steps[s]));
  return {
      fmt::format("A run in {}: {} blocks of width {}. Of one batch of its text, {} sequences of "
                  "{} tokens, the gradient is taken in FP32 (loss {}), then {} times in each "
                  "recipe, each time with other draws. All weights of the blocks' linear layers "
                  "are taken together, the head is left out; the files have them by kind too. "
                  "Forward, backward and weight gradients are in the recipe's numbers, so that "
                  "what the forward pass loses is part of the error. A recipe that keeps some "
                  "blocks in BF16 keeps them here.",
                  run.trained_in, run.model.layers, run.model.width, run.sequences,
                  run.model.context, list_of(losses), draws),
      projections_text(run) + change_text(run), noise_text(run, draws), loss_text(run)};
}

// ---------------------------------------------------------------- pictures

bool has_numbers(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const Series& series) {
    return std::any_of(series.y.begin(), series.y.end(), [](double y) { return std::isfinite(y); });
  });
}

Chart projection_chart(Grid projections) {
  for (Value& value : projections.values) {
    value.found = 100 * (value.found - 1);
    value.error *= 100;
  }
  projections.caption =
      "Projection on the FP32 gradient: percent above or below 1, ± standard error";
  return bars_of(projections, "percent");
}

Chart sqnr_chart(const RunGradients& run, const Grid& one, const Grid& mean) {
  const size_t last = run.steps.size() - 1;
  Grid both("", fmt::format("SQNR at step {}", run.steps.back()), "recipe", run.recipes,
            {"one draw", "mean of all draws"});
  for (size_t r = 0; r < run.recipes.size(); ++r) {
    both.at(r, 0) = one.at(r, last);
    both.at(r, 1) = mean.at(r, last);
  }
  return bars_of(both, "dB");
}

Report gradients(const Settings& settings) {
  const RunGradients run = run_gradients(settings);
  Section section{.heading = "All linear layers of the blocks",
                  .paragraphs = paragraphs_of(run, settings.run.draws),
                  .grids = {},
                  .charts = {}};
  for (const Measure& measure : kMeasures) section.grids.push_back(grid_of(run, measure));
  section.grids.push_back(loss_grid_of(run));
  const Chart charts[] = {projection_chart(section.grids[0]),
                          sqnr_chart(run, section.grids[2], section.grids[3])};
  for (const Chart& chart : charts)
    if (has_numbers(chart)) section.charts.push_back(chart);
  for (const Measure& measure : kMeasures) section.grids.push_back(kinds_grid_of(run, measure));
  return {.name = "gradients",
          .title = "What a recipe leaves of the gradient of a training run",
          .sections = {std::move(section)}};
}

}  // namespace

extern const Study kGradients;
const Study kGradients{.name = "gradients",
                       .summary = "a run's gradients in each recipe against FP32, by checkpoint",
                       .run = gradients,
                       .of_run = true,
                       .recipes = "bf16,fp8-current,mxfp4-nr,mxfp4-sr,mxfp4-sr-rht,nvfp4",
                       .draws = 16};

}  // namespace ng::study
