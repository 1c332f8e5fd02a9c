// narrowgauge compare RUN.toml --recipes A,B,C: the same run in several recipes, seeds and
// settings, as a table.
#include "compare/compare.h"

#include <fmt/ranges.h>

#include <csignal>
#include <utility>

#include "base/exit_codes.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/runs/comparison.h"
#include "cli/shared_flags.h"
#include "recipe/said_recipe.h"
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
  add_limits(flags, args.hours, args.equal);
  flags.flag("--no-twin", args.without_twin, "no twins, and no noise floor");
  flags.option("--out DIR", args.out, "folder of the runs; else runs/NAME-compare");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kCompareFooter);
}

}  // namespace

const Command kCompare{"compare", "the same run in several recipes, as a table",
                       with_flags<CompareArgs, declare_compare, compare>};

}  // namespace ng::cli
