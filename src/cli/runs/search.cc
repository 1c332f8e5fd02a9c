// narrowgauge recipes search RUN.toml --base R --grid recipe.KEY=V,V: which recipe is nearer to
// BF16 than R, by gradients first and short runs then.
#include <csignal>

#include "base/exit_codes.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/runs/search.h"
#include "cli/runs/search_files.h"
#include "cli/runs/search_run.h"

namespace ng::cli {
namespace {

/// What goes on with a search that its hours ended.
std::string go_on_text(const SearchArgs& args, Ending ending) {
  SearchArgs again = args;
  if (ending == Ending::too_short) again.hours.clear();
  return fmt::format("{} within --hours {}; to go on{}: {}",
                     ending == Ending::too_short ? "no run ends" : "no other run ends", args.hours,
                     ending == Ending::too_short ? ", without a bound" : "",
                     shell_command(again.words()));
}

int search_recipes(const SearchArgs& args) {
  const TimeLimit limit(args.hours);
  const SearchSetup setup = search_setup(args);
  require_own_search(setup);
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is no reason to lose the runs
  const StopAtSignals signals;
  CompareScreen screen(args.json, limit);
  Search search(setup);
  if (!args.json) screen.put(search.plan_text());
  const Ending ending = search.run(limit, screen);
  if (ending == Ending::stopped) {
    screen.put("stopped; to go on: " + shell_command(args.words()));
    return signals.exit_code();
  }
  screen.require_written();
  if (args.json)
    print_json(json_of(setup, search.report()));
  else
    print("\n{}\n{}", search_text(search.report()), search_files_text(setup));
  if (ending == Ending::complete) return 0;
  note(go_on_text(args, ending));
  return kOutOfTime;
}

constexpr const char* kSearchFooter =
    R"(A candidate is the base with keys over it; several --grid multiply, and braces say a value
to several keys: 'recipe.linear.{dgrad,wgrad}.grad.rounding=stochastic,eden'. First bf16 is
trained, and of its last checkpoint each candidate's gradient is taken as study gradients does:
the better part stays. Then rungs of runs, as compare makes them: candidates are halved, steps or
seeds doubled, and the base and bf16 are in each. All runs validate in own numbers and in BF16.
What is finished in the folder is not repeated. Writes recipes/, a file of each candidate,
report.html, search.csv, search.json and search.md, which say what is decided and what is not,
and rung-N/ with the pages of compare. docs/searching.md says how.)";

void declare_search(Flags flags, SearchArgs& args) {
  args.run.declare(flags, /*with_recipe=*/false);
  flags.option("--base NAME", args.base, "the recipe that is to be beaten, a name or a file")
      .required();
  flags
      .option("--grid KEY=V,V", args.grid,
              "the base with each value of a key, e.g. recipe.linear.fprop.hadamard=0,16; several "
              "multiply")
      .repeats();
  flags.option("--recipes A,B,C", args.recipes, "more candidates, names or files").list();
  flags.flag("--skip-invalid", args.skips_invalid,
             "leave out combinations that are no recipe, and say which");
  flags.option("--keep N", args.keep, "candidates that gradients leave for runs; half of them")
      .range(1, 100000);
  flags
      .option("--steps N", args.steps,
              "at least so many steps in the first rung; each later one has at most twice as many, "
              "the last train.steps; else all have train.steps and later ones more seeds")
      .range(1, 99'999'999);
  flags
      .setting("--seeds N", args.seeds,
               "runs of each candidate in the first rung; one cannot judge differences")
      .range(1, 1000);
  flags.setting("--draws N", args.draws, "draws of each gradient").range(2, 100000);
  flags.setting("--by NUMBERS", args.by, "the loss that ranks: in own numbers or in BF16")
      .one_of({"own", "bf16"});
  add_limits(flags, args.hours, args.equal);
  flags.option("--out DIR", args.out, "folder of the search; else runs/NAME-search");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kSearchFooter);
}

}  // namespace

const Command kSearch{"search", "a recipe nearer to BF16 than another, of many candidates",
                      with_flags<SearchArgs, declare_search, search_recipes>};

}  // namespace ng::cli
