#include "cli/runs/comparison.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/interrupt.h"
#include "cli/shared_flags.h"
#include "io/checkpoint_files.h"
#include "report/reporter.h"

namespace ng::cli {
namespace {

// Trains one run with a report of its own.
std::optional<CompareResult> trained(const CompareRun& run, const std::atomic<bool>& stop,
                                     CompareScreen& screen) {
  report::RunReporter reporter(screen);
  return train_to_compare(run, &stop, reporter);
}

}  // namespace

void add_limits(Flags flags, std::string& hours, std::string& equal) {
  flags
      .option("--hours H", hours,
              "start no run that would end later (exit code 4); the next call goes on")
      .check(number_between("0", "10000"));
  flags.setting("--equal NATS", equal, "an interval within this of 0 is called equal")
      .check(number_between("0", "1000"));
}

TimeLimit::TimeLimit(const std::string& hours)
    : seconds_(hours.empty() ? std::numeric_limits<double>::infinity() : 3600 * std::stod(hours)) {}

void CompareScreen::notice(const std::string& sentence) {
  reading_.clear();
  note(sentence);
}

void CompareScreen::step(const StepMetrics&) {
  if (limit_.seconds_left() < 0) StopAtSignals::request();
}

void CompareScreen::validation(const ValidationMetrics& m) {
  put(fmt::format("  step {}: validation loss {:.4f}", m.step, m.loss));
}

void CompareScreen::put(const std::string& text) {
  if (!silent_) output_.put(text + '\n');
}

void Comparison::put(size_t run, const CompareResult& result) {
  finished_[run] = report::compared_run(runs_[run], result);
  const PlaceInTable place = place_of(runs_[run].of);
  const auto known = numbers_.find(place);
  if (known == numbers_.end() || !known->second.model)
    numbers_.insert_or_assign(place, numbers_of(runs_[run]));
}

void Comparison::take_finished() {
  for (size_t i = 0; i < runs_.size(); ++i)
    if (const std::optional<CompareResult> result = finished_result(runs_[i])) put(i, *result);
}

std::vector<size_t> Comparison::order() const {
  std::vector<size_t> order(runs_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return runs_[i].config.seed; });
  return order;
}

double Comparison::seconds_of(size_t run) const {
  double same = 0, most = 0;
  for (const auto& other : finished_) {
    if (!other) continue;
    const CompareResult& result = other->result;
    most = std::max(most, result.seconds);
    if (result.of.label == runs_[run].of.label && result.of.settings == runs_[run].of.settings)
      same = std::max(same, result.seconds);
  }
  const auto saved = io::list_checkpoints(join_path(runs_[run].folder, "checkpoints"));
  const double done = saved.empty() ? 0 : static_cast<double>(saved.front().step);
  const auto steps = static_cast<double>(runs_[run].config.train.steps);
  return (same > 0 ? same : most) * std::max(0.0, 1 - done / steps);
}

double Comparison::seconds_of_next() const {
  const std::vector<size_t> in_turn = order();
  return seconds_of(*std::ranges::find_if(in_turn, [&](size_t run) { return !has(run); }));
}

size_t Comparison::missing() const {
  return static_cast<size_t>(
      std::ranges::count_if(finished_, [](const auto& run) { return !run.has_value(); }));
}

FinishedRuns Comparison::finished() const {
  FinishedRuns all{.runs = runs_, .finished = {}, .out = out_};
  std::set<PlaceInTable> seen;
  for (const auto& run : finished_) {
    if (!run) continue;
    all.finished.push_back(*run);
    const PlaceInTable place = place_of(run->run.of);
    if (seen.insert(place).second) all.numbers.push_back(numbers_.at(place));
  }
  all.table = compare_table(all.results(), equal_);
  all.table.recipe_keys = recipe_keys_;
  std::set<std::string> saved_as;
  for (const CompareRun& run : runs_) saved_as.insert(run.config.train.save_dtype);
  saved_as.erase("F32");
  all.table.saved_as = {saved_as.begin(), saved_as.end()};
  return all;
}

Ending run_all(Comparison& comparison, const TimeLimit& limit, CompareScreen& screen,
               const std::function<std::string(const Comparison& now)>& about) {
  const std::vector<CompareRun>& runs = comparison.runs();
  comparison.take_finished();
  size_t number = 0;
  for (const size_t i : comparison.order()) {
    const bool is_finished = comparison.has(i);
    const double needed = is_finished ? 0 : comparison.seconds_of(i);
    if (!is_finished && needed > limit.seconds_left())
      return needed == 0 || needed > limit.seconds() ? Ending::too_short : Ending::out_of_time;
    screen.put(fmt::format("{} of {}: {}{}", ++number, runs.size(), on_one_line(runs[i].folder),
                           about && !is_finished ? about(comparison) : ""));
    if (is_finished) {
      screen.put("  is already finished");
      continue;
    }
    const std::optional<CompareResult> result = trained(runs[i], StopAtSignals::flag(), screen);
    if (!result) return limit.seconds_left() < 0 ? Ending::out_of_time : Ending::stopped;
    comparison.put(i, *result);
    write_compare_files(comparison.finished());
  }
  return Ending::complete;
}

}  // namespace ng::cli
