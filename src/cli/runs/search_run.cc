#include "cli/runs/search_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/interrupt.h"
#include "cli/runs/search_files.h"
#include "io/checkpoint_files.h"
#include "search/gradient_score.h"
#include "study/checkpoint_gradients.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

/// "4 candidates, 2 runs each, 100 steps"
std::string rung_text(const search::Rung& rung) {
  return fmt::format("{}, {} each, {}", counted(rung.candidates, "candidate"),
                     counted(rung.seeds, "run"), counted(rung.steps, "step"));
}

/// All that a rung's comparison is made of; twins there are none.
Comparison comparison_of(std::vector<CompareRun> runs, const std::string& folder, double equal) {
  require_own_outputs(runs, folder);
  return {std::move(runs), folder, equal, {}};
}

std::string score_text(const search::GradientScore& score) {
  return fmt::format("bias {:.4f}, noise {:.4f}, loss moves by {:+.4f}", score.bias, score.noise,
                     score.loss);
}

/// The newest checkpoint of the reference.
io::CheckpointEntry checkpoint_of(const CompareRun& run) {
  const std::string folder = join_path(run.folder, kCheckpointsFolder);
  const std::vector<io::CheckpointEntry> all = io::list_checkpoints(folder);
  if (all.empty())
    throw Error({.place = folder,
                 .key = "",
                 .problem = "holds no checkpoint, whose gradients are to be taken",
                 .remedy = "that run's folder removed: it is trained again"});
  return all.front();
}

/// A model that diverged has no gradients to rank by.
void require_reference(const Comparison& comparison) {
  const CompareResult result = comparison.finished().results().front();
  if (std::isfinite(result.val_loss)) return;
  throw Error({.place = comparison.runs().front().folder,
               .key = "",
               .problem = "the run in bf16 diverged, whose gradients rank the candidates",
               .remedy = "a smaller train.lr or longer train.warmup, with another --out"});
}

}  // namespace

Search::Search(const SearchSetup& setup) : setup_(setup), report_(setup.report) {}

double Search::estimated(const std::vector<CompareRun>& runs) const {
  double seconds = 0;
  for (const CompareRun& run : runs)
    seconds += static_cast<double>(run.config.train.steps) *
               (run.of.label == "bf16" ? bf16_step_ : base_step_);
  return seconds;
}

double Search::estimated_behind(size_t rung) const {
  double seconds = 0;
  for (size_t r = rung; r < report_.plan.size(); ++r) {
    const search::Rung& next = report_.plan[r];
    const auto runs = static_cast<double>(next.seeds * next.steps);
    seconds += runs * (static_cast<double>(next.candidates + 1) * base_step_ + bf16_step_);
  }
  return seconds;
}

double Search::estimated_gradients() const {
  return static_cast<double>(report_.draws) * static_cast<double>(report_.candidates.size() + 1) *
         base_step_;
}

std::string Search::plan_text() {
  const Threads threads = threads_of(setup_.config.train.threads);
  const auto measured = [&](const std::string& recipe) {
    return search::step_seconds(setup_.config, setup_.model, Recipe::load(recipe), threads);
  };
  base_step_ = measured(setup_.args.base);
  bf16_step_ = measured("bf16");
  std::string text =
      fmt::format("search      {} beside {}, by the loss in {}\n",
                  counted(std::ssize(report_.candidates), "candidate"), report_.base.label,
                  setup_.args.by == "own" ? "own numbers" : "BF16");
  for (const std::string& combination : report_.left_out)
    text += "left out    " + on_one_line(combination) + '\n';
  text += fmt::format("gradients   {} draws of each, of bf16 after {}: {} stay\n", report_.draws,
                      counted(setup_.config.train.steps, "step"), report_.plan.front().candidates);
  for (size_t r = 0; r < report_.plan.size(); ++r)
    text += fmt::format("{:<12}{}\n", fmt::format("rung {}", r + 1), rung_text(report_.plan[r]));
  const double all = estimated(setup_.reference()) + estimated_gradients() + estimated_behind(0);
  return text + fmt::format(
                    "time        about {} in all, by steps of {:.3g} s in {} and {:.3g} s in "
                    "bf16; validation comes to it\n",
                    duration_text(all), base_step_, report_.base.label, bf16_step_);
}

std::function<std::string(const Comparison&)> Search::left_after(size_t rung) const {
  return [this, rung](const Comparison& now) -> std::string {
    search::WorkTime time;
    std::vector<CompareRun> missing;
    for (size_t i = 0; i < now.runs().size(); ++i)
      if (!now.has(i)) missing.push_back(now.runs()[i]);
    for (const report::ComparedRun& done : now.finished().finished)
      if (done.result.seconds > 0) time.took(estimated({done.run}), done.result.seconds);
    const double gradients = rung == 0 ? estimated_gradients() : 0;
    const double left = estimated(missing) + gradients + estimated_behind(rung);
    return left > 0 ? fmt::format(", about {} left", duration_text(time.seconds_of(left))) : "";
  };
}

Ending Search::run_missing(Comparison& comparison, size_t rung, const TimeLimit& limit,
                           CompareScreen& screen) {
  comparison.take_finished();
  const size_t missing = comparison.missing();
  const Ending ending = run_all(comparison, limit, screen, left_after(rung));
  has_progress_ = has_progress_ || comparison.missing() < missing;
  // The next call has these hours anew, and gets further as this one did.
  return ending == Ending::too_short && has_progress_ ? Ending::out_of_time : ending;
}

Ending Search::train_reference(const TimeLimit& limit, CompareScreen& screen) {
  screen.put("reference: bf16");
  Comparison comparison =
      comparison_of(setup_.reference(), setup_.reference_folder(), report_.rules.equal);
  const Ending ending = run_missing(comparison, 0, limit, screen);
  if (ending == Ending::complete) require_reference(comparison);
  return ending;
}

Ending Search::take_gradients(const TimeLimit& limit, CompareScreen& screen) {
  screen.put("gradients:");
  Scores scores = read_scores(setup_);
  std::vector<search::ReportedRecipe> all = {report_.base};
  all.insert(all.end(), report_.candidates.begin(), report_.candidates.end());
  const study::ProbeTask task = study::task_of_run(setup_.config, setup_.config.seed);
  std::optional<study::CheckpointGradients> gradients;  // opened where a score is missing
  for (const search::ReportedRecipe& one : all) {
    if (!scores.contains(one.label)) {
      if (limit.seconds_left() < 0) return Ending::out_of_time;
      if (StopAtSignals::flag().load()) return Ending::stopped;
      if (!gradients)
        gradients.emplace(checkpoint_of(setup_.reference().front()), task,
                          threads_of(setup_.config.train.threads));
      study::GradientProbe probe = gradients->probe(one.recipe);
      scores[one.label] = search::score_of(gradients->errors_of(probe, report_.draws));
      write_scores(setup_, scores);
      has_progress_ = true;
    }
    report_.scores.push_back(scores.at(one.label));
    screen.put(fmt::format("  {}: {}", one.label, score_text(report_.scores.back())));
  }
  return Ending::complete;
}

std::vector<std::string> Search::recipes_in(size_t rung) const {
  std::vector<std::string> recipes;
  if (rung == 0) {
    const std::vector<size_t> order = report_.order_by_gradients();
    for (const size_t i : std::span(order).first(static_cast<size_t>(report_.plan[0].candidates)))
      recipes.push_back(report_.candidates[i].recipe);
    return recipes;
  }
  for (const std::string& label : report_.rungs[rung - 1].kept)
    recipes.push_back(
        std::ranges::find(report_.candidates, label, &search::ReportedRecipe::label)->recipe);
  return recipes;
}

Ending Search::climb(size_t rung, const TimeLimit& limit, CompareScreen& screen) {
  screen.put(fmt::format("rung {}: {}", rung + 1, rung_text(report_.plan[rung])));
  Comparison comparison = comparison_of(setup_.runs_of(rung, recipes_in(rung)),
                                        setup_.folder_of(rung), report_.rules.equal);
  const Ending ending = run_missing(comparison, rung + 1, limit, screen);
  if (ending != Ending::complete) return ending;
  const bool is_last = rung + 1 == report_.plan.size();
  report_.rungs.push_back(search::outcome_of(report_.plan[rung], comparison.finished().results(),
                                             report_.rules,
                                             is_last ? 1 : report_.plan[rung + 1].candidates));
  const std::vector<std::string>& kept = report_.rungs.back().kept;
  screen.put(kept.empty()
                 ? "  all candidates diverged"
                 : fmt::format("  {}: {}", is_last ? "the best" : "stay", fmt::join(kept, ", ")));
  write_search_files(setup_, report_);
  return ending;
}

Ending Search::run(const TimeLimit& limit, CompareScreen& screen) {
  make_folders(setup_.args.folder());
  search::write_recipes(setup_.candidates);
  write_search_files(setup_, report_);
  for (const auto part : {&Search::train_reference, &Search::take_gradients})
    if (const Ending ending = (this->*part)(limit, screen); ending != Ending::complete)
      return ending;
  write_search_files(setup_, report_);
  for (size_t rung = 0; !report_.is_complete(); ++rung)
    if (const Ending ending = climb(rung, limit, screen); ending != Ending::complete) return ending;
  return Ending::complete;
}

}  // namespace ng::cli
