// narrowgauge compare RUN.toml --recipes A,B,C: the same run in several recipes, as a table.
#include "train/compare.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "report/compare_page.h"
#include "report/reporter.h"
#include "train/run_files.h"
#include "train/run_folder.h"

namespace ng::cli {
namespace {

constexpr std::string_view kPageFile = "report.html";
constexpr std::string_view kCsvFile = "compare.csv";
constexpr std::string_view kJsonFile = "compare.json";

struct CompareArgs {
  RunFlags run;
  std::vector<std::string> recipes;
  int64_t seeds = 1;
  std::string out;
  bool json = false;
};

/// Says which run goes on; nothing on standard output where that is to be JSON.
class CompareScreen final : public SessionObserver {
 public:
  explicit CompareScreen(bool silent) : silent_(silent) {}

  void notice(const std::string& sentence) override {
    reading_.clear();
    note(sentence);
  }
  void reading(int64_t done, int64_t bytes) override { reading_.show_bytes(done, bytes); }
  void started(Session&, int64_t) override { reading_.clear(); }
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
};

void print_rows(const std::vector<CompareRow>& rows) {
  std::vector<std::string> heading = {"recipe", "validation loss", "to the first", "bits per byte",
                                      "tokens/s"};
  std::vector<size_t> kinds;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const bool shown = std::any_of(rows.begin(), rows.end(), [&](const CompareRow& row) {
      return row.bytes_per_parameter.most[kind] >= 0.005;
    });
    if (!shown) continue;
    kinds.push_back(kind);
    heading.emplace_back(name_of(static_cast<MemoryKind>(kind)));
  }
  Table table(heading);
  const auto with_sd = [](double mean, double sd, int64_t seeds, const char* sign) {
    const std::string text = fmt::format("{}{:.4f}", mean < 0 ? "" : sign, mean);
    return seeds < 2 ? text : fmt::format("{} ± {:.4f}", text, sd);
  };
  for (const CompareRow& r : rows) {
    const bool differs = &r != &rows.front() && !std::isnan(r.difference);
    std::vector<std::string> cells = {
        r.label,
        r.diverged != 0 ? divergence_text(r) : with_sd(r.val_loss, r.val_loss_sd, r.seeds, ""),
        differs ? with_sd(r.difference, r.difference_sd, r.seeds, "+") : "",
        std::isnan(r.bits_per_byte) ? "" : fmt::format("{:.4f}", r.bits_per_byte),
        fmt::format("{:.0f}", r.tokens_per_second)};
    for (const size_t kind : kinds)
      cells.push_back(fmt::format("{:.2f}", r.bytes_per_parameter.most[kind]));
    table.row(std::move(cells));
  }
  print("\n{}the most bytes per parameter of each kind in the columns on the right\n",
        table.text());
}

// Trains one run with a report of its own, or takes what an earlier call left.
std::optional<CompareResult> result_of(const CompareRun& run, const std::atomic<bool>& stop,
                                       CompareScreen& screen) {
  if (std::optional<CompareResult> result = finished_result(run)) {
    screen.put("  is already finished");
    return result;
  }
  report::RunReporter reporter(screen);
  return train_to_compare(run, &stop, reporter);
}

// Where something there is not of a comparison, or one of the runs reads it.
void require_own_outputs(const std::vector<CompareRun>& runs, const std::string& out) {
  const std::string page = join_path(out, kPageFile), csv = join_path(out, kCsvFile);
  const std::string json = join_path(out, kJsonFile);
  require_own_file(page, report::html_begin(), "a comparison's");
  require_own_file(csv, compare_csv({}).substr(0, 24), "a comparison's");
  require_own_file(json, "{\n  \"recipes\": [", "a comparison's");
  require_not_read(runs.front().config, std::vector{page, csv, json});
  require_own_folders(runs);
}

int compare(const CompareArgs& args) {
  const RunConfig config = args.run.load();
  const std::string out =
      args.out.empty() ? first_run_folder(args.run.file) + "-compare" : args.out;
  const std::vector<CompareRun> runs = compare_runs(config, args.recipes, args.seeds, out);
  require_own_outputs(runs, out);
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is no reason to lose the runs
  const StopAtSignals signals;
  CompareScreen screen(args.json);
  std::vector<CompareResult> results;
  std::vector<report::ComparedRun> finished;
  for (const CompareRun& run : runs) {
    screen.put(
        fmt::format("{} of {}: {}", results.size() + 1, runs.size(), on_one_line(run.folder)));
    const std::optional<CompareResult> result = result_of(run, signals.flag(), screen);
    if (!result) {
      screen.put("stopped; the same command goes on");
      return signals.exit_code();
    }
    results.push_back(*result);
    finished.push_back(report::compared_run(run, *result));
    write_file_atomically(join_path(out, kPageFile),
                          report::html_of(report::compare_page(finished, runs.size(), out)));
  }
  const std::vector<CompareRow> rows = compare_rows(results);
  const Json json = compare_json(rows, results);
  write_file_atomically(join_path(out, kCsvFile), compare_csv(rows));
  write_file_atomically(join_path(out, kJsonFile), json_text(json, 2) + "\n");
  screen.require_written();
  if (args.json) {
    print_json(json);
    return 0;
  }
  print_rows(rows);
  print("{0}/report.html\n{0}/compare.csv\n{0}/compare.json\n", on_one_line(out));
  return 0;
}

constexpr const char* kCompareFooter =
    R"(Every recipe sees the same batches in the same order. Runs that are finished in the folder
are not repeated, others go on from their newest checkpoint; one that diverges is a row of the
table. A run's folder is RECIPE-seedN, N its seed. Writes compare.csv, compare.json and
report.html (a page with pictures); each run's folder has one too.)";

void declare_compare(Flags flags, CompareArgs& args) {
  args.run.declare(flags, /*with_recipe=*/false);
  flags.option("--recipes A,B,C", args.recipes, "recipes to compare, the first is the baseline")
      .list()
      .required();
  flags.setting("--seeds", args.seeds, "runs of each recipe, with seeds from the run file's on")
      .range(1, 1000);
  flags.option("--out DIR", args.out, "folder of the runs; else runs/NAME-compare");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kCompareFooter);
}

}  // namespace

const Command kCompare{"compare", "the same run in several recipes, as a table",
                       with_flags<CompareArgs, declare_compare, compare>};

}  // namespace ng::cli
