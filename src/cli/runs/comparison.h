// Runs of a comparison, one after the other, and what is known of them by now.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/runs/compare_files.h"
#include "compare/compare.h"
#include "report/compare_page.h"

namespace ng::cli {

/// --hours, as TimeLimit takes it, and --equal.
void add_limits(Flags flags, std::string& hours, std::string& equal);

/// The time that a call may take.
class TimeLimit {
 public:
  /// Empty: any.
  explicit TimeLimit(const std::string& hours);
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

  void notice(const std::string& sentence) override;
  void reading(int64_t done, int64_t bytes) override { reading_.show_bytes(done, bytes); }
  void started(Session&, int64_t) override { reading_.clear(); }
  void step(const StepMetrics&) override;
  void validation(const ValidationMetrics& m) override;
  void put(const std::string& text);
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
  void put(size_t run, const CompareResult& result);
  /// What earlier calls left.
  void take_finished();
  [[nodiscard]] bool has(size_t run) const { return finished_[run].has_value(); }

  /// A seed of everything before the next: what is stopped can be compared as far as it came.
  [[nodiscard]] std::vector<size_t> order() const;
  /// What the rest of a run will take, by runs in the same numbers, else by the longest; 0: not
  /// known.
  [[nodiscard]] double seconds_of(size_t run) const;
  /// seconds_of() what would begin next, of which there is one.
  [[nodiscard]] double seconds_of_next() const;
  [[nodiscard]] size_t missing() const;
  [[nodiscard]] FinishedRuns finished() const;

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

/// How a call came to its end; of `too_short` a time the same call would get no further.
enum class Ending : uint8_t { complete, stopped, out_of_time, too_short };

/// Trains what is missing, each run with a report of its own, and writes the files of the
/// comparison after each. `about`: what the screen says behind a run that begins.
[[nodiscard]] Ending run_all(Comparison& comparison, const TimeLimit& limit, CompareScreen& screen,
                             const std::function<std::string(const Comparison& now)>& about = {});

}  // namespace ng::cli
