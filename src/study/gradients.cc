// study gradients: those of a training run in narrow numbers against FP32, projection, cosine and
// SQNR at its checkpoints.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "compare/compare.h"
#include "study/checkpoint_gradients.h"
#include "study/measured_phases.h"
#include "study/study.h"
#include "study/written.h"
#include "train/run_files.h"

namespace ng::study {
namespace {

// ---------------------------------------------------------------- what is measured

struct RunGradients {
  std::string trained_in;  ///< the run's own recipe
  ModelConfig model;
  int64_t sequences = 0;                           ///< of the batch
  std::vector<int64_t> steps;                      ///< checkpoints, ascending
  std::vector<double> losses;                      ///< of the batch in FP32, by step
  std::vector<std::string> recipes;                ///< their labels
  std::vector<std::string> kinds;                  ///< CheckpointGradients::kinds()
  std::vector<std::vector<GradientErrors>> found;  ///< [recipe][step]
  std::vector<PhaseOfRecipe> phases;               ///< of each of them
  NumbersOfRecipes numbers;
};

constexpr size_t kMostCheckpoints = 8;  // a chart has no more series

std::string steps_text(const std::vector<io::CheckpointEntry>& checkpoints) {
  Names steps;
  for (const io::CheckpointEntry& checkpoint : checkpoints)
    steps.push_back(std::to_string(checkpoint.step));
  return list_of(steps);
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

/// Takes the batch that would have been the run's next one after its end. Throws Error for what is
/// wrong with settings.run.
RunGradients run_gradients(const Settings& settings) {
  const RunSubject& subject = settings.run;
  const auto refuse = [](const char* key, const std::string& problem, const char* remedy) {
    throw Error({.place = "study gradients", .key = key, .problem = problem, .remedy = remedy});
  };
  if (subject.draws < 2)  // one draw has no standard error
    refuse("--draws", std::to_string(subject.draws), "2 or more");
  if (subject.folder.empty())
    refuse("RUN", "no run is named", "the folder of a run: run.toml, checkpoints/");
  const RunConfig config = load_run_config(subject.folder);
  const std::vector<io::CheckpointEntry> checkpoints = chosen_checkpoints(subject);
  RunGradients result;
  result.recipes = recipe_labels(subject.recipes);
  const std::vector<std::string> recipes = subject.changed_recipes();
  const ProbeTask task = task_of_run(config, settings.seed);
  result.trained_in = config.recipe;
  result.model = task.model;
  result.sequences = task.sequences;
  result.found.resize(recipes.size());
  result.numbers = numbers_of(result.recipes, recipes, task.model);
  Progress progress(settings, std::ssize(checkpoints) * std::ssize(recipes));
  for (const io::CheckpointEntry& checkpoint : checkpoints) {
    const CheckpointGradients gradients(checkpoint, task, settings.threads);
    result.kinds = gradients.kinds();
    result.steps.push_back(checkpoint.step);
    result.losses.push_back(gradients.loss());
    for (size_t r = 0; r < recipes.size(); ++r) {
      GradientProbe probe = gradients.probe(recipes[r]);
      const MeasuredPhase phase = phase_after(checkpoint.step, config.train.steps, probe.recipe(),
                                              settings.run.phase, result.numbers.have_phases);
      probe.set_phase(phase.index);
      result.phases.push_back({result.recipes[r], checkpoint.step, phase});
      result.found[r].push_back(gradients.errors_of(probe, subject.draws));
      progress.step();
    }
  }
  return result;
}

// ---------------------------------------------------------------- tables

constexpr double kClose = 0.01;      // of a projection to 1: "within 1 %"
constexpr double kMovedLoss = 0.01;  // nats

double rms_of(const Mean& mean) { return std::sqrt(mean.mean_square()); }

/// A figure of the table.
struct GradientMeasure {
  const char* name;
  const char* caption;
  int digits;
  Value (*of)(const DrawnErrors& errors);
};
constexpr GradientMeasure kMeasures[] = {
    {"projection", "Projection <g, g₀>/<g₀, g₀> on the FP32 gradient: 1 where nothing is biased", 5,
     [](const DrawnErrors& e) { return e.projection.value(); }},
    {"cosine", "Cosine of the angle to the FP32 gradient", 5,
     [](const DrawnErrors& e) { return e.cosine.value(); }},
    {"sqnr", "SQNR of one draw, dB", 4,
     [](const DrawnErrors& e) { return Value{sqnr(rms_of(e.error))}; }},
    {"sqnr_of_mean", "SQNR of the mean of all draws, dB: noise averages away, bias stays", 4,
     [](const DrawnErrors& e) { return Value{sqnr(e.error_of_mean)}; }},
    {"bias", "Relative error that no number of draws averages away (estimated)", 3,
     [](const DrawnErrors& e) { return Value{e.bias}; }},
};

/// A table of recipes and checkpoints.
Grid grid_of(const RunGradients& run, const char* name, const char* caption, int digits,
             const std::function<Value(const GradientErrors& errors)>& of) {
  return Grid(name, caption, "recipe", run.recipes, texts_of(run.steps, "step {}"),
              {.digits = digits})
      .filled([&](size_t r, size_t s) { return of(run.found[r][s]); });
}

/// A measure by kind of layer: for the files.
Grid kinds_grid_of(const RunGradients& run, const GradientMeasure& measure) {
  Names rows;
  for (const std::string& recipe : run.recipes)
    for (const std::string& kind : run.kinds) rows.push_back(fmt::format("{}: {}", recipe, kind));
  const size_t kinds = run.kinds.size();
  return Grid(fmt::format("{}_by_kind", measure.name), measure.caption, "recipe: layers",
              std::move(rows), texts_of(run.steps, "step {}"), {.shown = false})
      .filled(
          [&](size_t r, size_t s) { return measure.of(run.found[r / kinds][s].kinds[r % kinds]); });
}

// ---------------------------------------------------------------- sentences

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
    const double one = sqnr(rms_of(e.error));
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
  std::vector<Grid> grids;
  for (const GradientMeasure& m : kMeasures)
    grids.push_back(grid_of(run, m.name, m.caption, m.digits,
                            [&](const GradientErrors& errors) { return m.of(errors.all); }));
  grids.push_back(grid_of(run, "loss",
                          "Loss of the batch in the recipe's numbers, less that in FP32, nats", 3,
                          [](const GradientErrors& errors) { return errors.loss.value(); }));
  for (const GradientMeasure& measure : kMeasures) grids.push_back(kinds_grid_of(run, measure));
  Names losses;
  for (size_t s = 0; s < run.steps.size(); ++s)
    losses.push_back(fmt::format("{:.3f} at step {}", run.losses[s], run.steps[s]));
  Section section = section_of("gradients", "all", std::move(grids),
                               {{"trained_in", run.trained_in},
                                {"layers", run.model.layers},
                                {"width", run.model.width},
                                {"sequences", run.sequences},
                                {"length", run.model.context},
                                {"losses", list_of(losses)},
                                {"draws", settings.run.draws},
                                {"projections", projections_text(run) + change_text(run)},
                                {"noise", noise_text(run, settings.run.draws)},
                                {"loss", loss_text(run)}});
  section.charts = {projection_chart(section.grids[0]),
                    sqnr_chart(run, section.grids[2], section.grids[3])};
  Names numbers = run.numbers.matches;
  if (const std::string phases = phases_text(run.phases, settings.run.phase); !phases.empty())
    numbers.insert(numbers.begin(), phases);
  section.paragraphs.insert(section.paragraphs.begin() + 1, numbers.begin(), numbers.end());
  std::erase_if(section.charts, [](const Chart& chart) { return !has_numbers(chart); });
  return {.name = "gradients",
          .title = title_of("gradients"),
          .sections = {std::move(section)},
          .phases = run.phases};
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
