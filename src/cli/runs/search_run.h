// A search for a recipe: gradients first, then rungs of a comparison's runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/runs/comparison.h"
#include "cli/runs/search_setup.h"
#include "search/search_report.h"
#include "search/step_time.h"

namespace ng::cli {

/// What is done of a search, and what is missing.
class Search {
 public:
  /// `setup` outlives this.
  explicit Search(const SearchSetup& setup);

  [[nodiscard]] const search::SearchReport& report() const { return report_; }
  /// What is going to be done, and about how long that takes: steps are measured.
  [[nodiscard]] std::string plan_text();
  /// Does what is missing; files are written after each part of it.
  [[nodiscard]] Ending run(const TimeLimit& limit, CompareScreen& screen);

 private:
  /// run_all() of what is missing; `rung`: that behind it.
  [[nodiscard]] Ending run_missing(Comparison& comparison, size_t rung, const TimeLimit& limit,
                                   CompareScreen& screen);
  [[nodiscard]] Ending train_reference(const TimeLimit& limit, CompareScreen& screen);
  [[nodiscard]] Ending take_gradients(const TimeLimit& limit, CompareScreen& screen);
  [[nodiscard]] Ending climb(size_t rung, const TimeLimit& limit, CompareScreen& screen);
  /// Of runs that are there or not, by measured steps.
  [[nodiscard]] double estimated(const std::vector<CompareRun>& runs) const;
  /// Of all gradients.
  [[nodiscard]] double estimated_gradients() const;
  /// Of the rungs behind this one.
  [[nodiscard]] double estimated_behind(size_t rung) const;
  /// What run_all() says behind each run, of one of the rungs; 0: of the reference.
  [[nodiscard]] std::function<std::string(const Comparison&)> left_after(size_t rung) const;
  /// The candidates that are in a rung, as recipes.
  [[nodiscard]] std::vector<std::string> recipes_in(size_t rung) const;

  const SearchSetup& setup_;
  search::SearchReport report_;
  double base_step_ = 0, bf16_step_ = 0;  ///< seconds; 0: not measured
  bool has_progress_ = false;             ///< this call has done something
};

}  // namespace ng::cli
