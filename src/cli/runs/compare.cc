// narrowgauge compare RUN.toml --recipes A,B,C: the same run in several recipes, seeds and
// settings, as a table.
#include "compare/compare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "base/exit_codes.h"
#include "base/files.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress_line.h"
#include "cli/runs/compare_files.h"
#include "cli/shared_flags.h"
#include "io/checkpoint_files.h"
#include "report/reporter.h"
#include "train/run_folder.h"

namespace ng::cli {
namespace {

struct CompareArgs {
  RunFlags run;
  std::vector<std::string> recipes, grid;
  int64_t seeds = 3;
  bool without_twin = false;
  std::string hours, equal = "0.005";
  std::string out;
  bool json = false;
};

/// The time that a call may take.
class TimeLimit {
 public:
  /// Empty: any.
  explicit TimeLimit(const std::string& hours)
      : seconds_(hours.empty() ? std::numeric_limits<double>::infinity()
                               : 3600 * std::stod(hours)) {}
  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] double seconds_gone() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  [[nodiscard]] double seconds_left() const { return seconds_ - seconds_gone(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  double seconds_;
};

/// Says which run goes on; nothing on standard output where that is to be JSON. Stops a run whose
/// time is over.
class CompareScreen final : public SessionObserver {
 public:
  CompareScreen(bool silent, const TimeLimit& limit) : silent_(silent), limit_(limit) {}

  void notice(const std::string& sentence) override {
    reading_.clear();
    note(sentence);
  }
  void reading(int64_t done, int64_t bytes) override { reading_.show_bytes(done, bytes); }
  void started(Session&, int64_t) override { reading_.clear(); }
  void step(const StepMetrics&) override {
    if (limit_.seconds_left() < 0) StopAtSignals::request();
  }
  void validation(const ValidationMetrics& m) override {
    put(fmt::format("  step {}: validation loss {:.4f}", m.step, m.loss));
  }
  void put(const std::string& text) {
    if (!silent_) output_.put(text + '\n');
  }
  void require_written() const {
    output_.require_written("the runs and their comparison are complete in the folder");
  }

 private:
  SteadyOutput output_;
  ProgressLine reading_{"MB"};
  bool silent_;
  const TimeLimit& limit_;
};

/// Runs and what is known of them by now.
class Comparison {
 public:
  /// `recipe_keys`: CompareTable's.
  Comparison(std::vector<CompareRun> runs, std::string out, double equal,
             std::vector<std::string> recipe_keys)
      : runs_(std::move(runs)),
        finished_(runs_.size()),
        out_(std::move(out)),
        equal_(equal),
        recipe_keys_(std::move(recipe_keys)) {}

  [[nodiscard]] const std::vector<CompareRun>& runs() const { return runs_; }
  void put(size_t run, const CompareResult& result) {
    finished_[run] = report::compared_run(runs_[run], result);
    const PlaceInTable place = place_of(runs_[run].of);
    const auto known = numbers_.find(place);
    if (known == numbers_.end() || !known->second.model)
      numbers_.insert_or_assign(place, numbers_of(runs_[run]));
  }
  /// What earlier calls left.
  void take_finished() {
    for (size_t i = 0; i < runs_.size(); ++i)
      if (const std::optional<CompareResult> result = finished_result(runs_[i])) put(i, *result);
  }
  [[nodiscard]] bool has(size_t run) const { return finished_[run].has_value(); }

  /// A seed of everything before the next: what is stopped can be compared as far as it came.
  [[nodiscard]] std::vector<size_t> order() const {
    std::vector<size_t> order(runs_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return runs_[i].config.seed; });
    return order;
  }
  /// What the rest of a run will take, by runs in the same numbers, else by the longest; 0: not
  /// known.
  [[nodiscard]] double seconds_of(size_t run) const {
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
  /// seconds_of() what would begin next, of which there is one.
  [[nodiscard]] double seconds_of_next() const {
    const std::vector<size_t> in_turn = order();
    return seconds_of(*std::ranges::find_if(in_turn, [&](size_t run) { return !has(run); }));
  }
  [[nodiscard]] size_t missing() const {
    return static_cast<size_t>(
        std::ranges::count_if(finished_, [](const auto& run) { return !run.has_value(); }));
  }
  [[nodiscard]] FinishedRuns finished() const {
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

 private:
  /// A recipe's label and a point of the grid.
  using PlaceInTable = std::pair<std::string, GridSettings>;
  static PlaceInTable place_of(const CompareCase& of) { return {of.label, of.settings}; }

  std::vector<CompareRun> runs_;
  std::vector<std::optional<report::ComparedRun>> finished_;
  std::map<PlaceInTable, RecipeNumbers> numbers_;
  std::string out_;
  double equal_;
  std::vector<std::string> recipe_keys_;
};

// Trains one run with a report of its own.
std::optional<CompareResult> trained(const CompareRun& run, const std::atomic<bool>& stop,
                                     CompareScreen& screen) {
  report::RunReporter reporter(screen);
  return train_to_compare(run, &stop, reporter, machine_text(threads_of(run.config.train.threads)));
}

/// How a call came to its end; of `too_short` a time the same call would get no further.
enum class Ending : uint8_t { complete, stopped, out_of_time, too_short };

Ending run_all(Comparison& comparison, const TimeLimit& limit, CompareScreen& screen) {
  const std::vector<CompareRun>& runs = comparison.runs();
  comparison.take_finished();
  size_t number = 0;
  for (const size_t i : comparison.order()) {
    const bool is_finished = comparison.has(i);
    const double needed = is_finished ? 0 : comparison.seconds_of(i);
    if (!is_finished && needed > limit.seconds_left())
      return needed == 0 || needed > limit.seconds() ? Ending::too_short : Ending::out_of_time;
    screen.put(fmt::format("{} of {}: {}", ++number, runs.size(), on_one_line(runs[i].folder)));
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

/// Keys of recipes stand over the first recipe, not over that of the run file, which may be none of
/// those compared.
std::vector<GridPoint> points_of(const CompareArgs& args) {
  return grid_points(args.grid, [&](const std::vector<std::string>& settings) {
    RunFlags flags = args.run;
    flags.recipe = args.recipes.front();
    flags.settings.insert(flags.settings.end(), settings.begin(), settings.end());
    try {
      return flags.load();
    } catch (const Error& error) {
      if (!error.parts().key.starts_with(kRecipePrefix)) throw;
      throw at_point(error, recipe_labels({flags.recipe}).front(),
                     fmt::format("{}", fmt::join(settings, ", ")));
    }
  });
}

/// Those of --set that go over each of --recipes; `config`: of any point of the grid, whose own
/// keys stand behind them.
std::vector<std::string> recipe_keys_of(const CompareArgs& args, const RunConfig& config) {
  const std::vector<std::string>& settings = args.run.settings;
  std::vector<std::string> said;
  for (const auto& [keys, setting] : config.set_recipe_keys)
    if (setting < settings.size()) said.push_back(settings[setting]);
  return said;
}

/// What goes on with a comparison.
std::string command_of(const CompareArgs& args) {
  const CompareArgs defaults;
  std::vector<std::string> words = {"compare"};
  const std::vector<std::string> run = args.run.words();
  words.insert(words.end(), run.begin(), run.end());
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  add("--recipes", fmt::format("{}", fmt::join(args.recipes, ",")));
  if (args.seeds != defaults.seeds) add("--seeds", std::to_string(args.seeds));
  for (const std::string& axis : args.grid) add("--grid", axis);
  if (!args.hours.empty()) add("--hours", args.hours);
  if (args.equal != defaults.equal) add("--equal", args.equal);
  if (args.without_twin) words.emplace_back("--no-twin");
  if (!args.out.empty()) add("--out", args.out);
  if (args.json) words.emplace_back("--json");
  return shell_command(words);
}

/// "3 of 12 runs are missing; to go on: narrowgauge compare ..."
std::string missing_text(const Comparison& comparison, const CompareArgs& args) {
  const size_t missing = comparison.missing();
  return fmt::format("{} of {} {} missing; to go on: {}", missing,
                     counted(std::ssize(comparison.runs()), "run"), missing == 1 ? "is" : "are",
                     command_of(args));
}

/// Of a call in which nothing could begin: what goes on is one with more hours.
std::string too_short_text(const Comparison& comparison, const TimeLimit& limit,
                           const CompareArgs& args) {
  const double needed = comparison.seconds_of_next();
  // With some more, for runs do not take the same time twice; where nothing is known, so that the
  // first is a minute at work.
  const double asked = needed > 0 ? 1.25 * needed : 60 + 2 * limit.seconds_gone();
  CompareArgs longer = args;
  longer.hours = fmt::format("{:.2g}", asked / 3600);
  return fmt::format("no run {} within --hours {}{}: {}", needed > 0 ? "ends" : "begins",
                     args.hours,
                     needed > 0 ? ", the next takes about " + duration_text(needed) : "",
                     missing_text(comparison, longer));
}

int compare(const CompareArgs& args) {
  const TimeLimit limit(args.hours);
  const std::string out =
      args.out.empty() ? first_run_folder(args.run.file) + "-compare" : args.out;
  const ComparePlan plan{
      .recipes = args.recipes, .seeds = args.seeds, .with_twin = !args.without_twin, .out = out};
  const std::vector<GridPoint> points = points_of(args);
  Comparison comparison(compare_runs(points, plan), out, std::stod(args.equal),
                        recipe_keys_of(args, points.front().config));
  require_recipes(comparison.runs());
  require_own_outputs(comparison.runs(), out);
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is no reason to lose the runs
  const StopAtSignals signals;
  CompareScreen screen(args.json, limit);
  const Ending ending = run_all(comparison, limit, screen);
  if (ending == Ending::stopped) {
    screen.put("stopped: " + missing_text(comparison, args));
    return signals.exit_code();
  }
  const FinishedRuns finished = comparison.finished();
  if (!finished.finished.empty()) write_compare_files(finished);  // also of runs from before
  screen.require_written();
  if (args.json)
    print_json(json_of(finished));
  else if (!finished.finished.empty())
    print("\n{}\n{}", text_of(finished), files_text(out));
  if (ending == Ending::complete) return 0;
  note(ending == Ending::too_short ? too_short_text(comparison, limit, args)
                                   : fmt::format("no other run ends within --hours {}: {}",
                                                 args.hours, missing_text(comparison, args)));
  return kOutOfTime;
}

constexpr const char* kCompareFooter =
    R"(Every recipe sees the same batches in the same order. Runs that are finished in the folder
are not repeated, others go on from their newest checkpoint; one that diverges is a row of the
table. A run's folder is RECIPE-seedN, N its seed, below KEY=VALUE of a grid. Of the first recipe
that draws random numbers there is a twin of each seed, with other draws: the noise floor. Each
model is validated in its recipe's numbers and in BF16. Writes compare.csv, compare.json,
compare.md and report.html (a page with pictures); each run's folder has one too.
docs/comparing.md says how intervals are made.)";

void declare_compare(Flags flags, CompareArgs& args) {
  args.run.declare(flags, /*with_recipe=*/false);
  flags.option("--recipes A,B,C", args.recipes, "recipes to compare, the first is the baseline")
      .list()
      .required();
  flags
      .setting(
          "--seeds", args.seeds,
          "runs of each recipe, with seeds from the run file's on; one cannot judge differences")
      .range(1, 1000);
  flags
      .option("--grid KEY=V,V", args.grid,
              "all recipes and seeds with each value, e.g. train.lr=1e-3,2e-3; several multiply")
      .repeats();
  flags
      .option("--hours H", args.hours,
              "start no run that would end later (exit code 4); the next call goes on")
      .check(number_between("0", "10000"));
  flags.setting("--equal NATS", args.equal, "an interval within this of 0 is called equal")
      .check(number_between("0", "1000"));
  flags.flag("--no-twin", args.without_twin, "no twins, and no noise floor");
  flags.option("--out DIR", args.out, "folder of the runs; else runs/NAME-compare");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kCompareFooter);
}

}  // namespace

const Command kCompare{"compare", "the same run in several recipes, as a table",
                       with_flags<CompareArgs, declare_compare, compare>};

}  // namespace ng::cli
