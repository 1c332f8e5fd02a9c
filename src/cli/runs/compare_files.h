// What a comparison leaves beside its runs: report.html, compare.csv, compare.json, compare.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "cli/output.h"
#include "report/compare_page.h"

namespace ng::cli {

[[nodiscard]] Table table_of_cells(const CompareCells& cells);

/// In which numbers the layers of one recipe's model are, at one point of the grid.
struct RecipeNumbers {
  CompareCase of;  ///< no twin: its numbers are the same
  Recipe recipe;
  std::optional<ModelConfig> model;  ///< none where the run left no model
};
[[nodiscard]] RecipeNumbers numbers_of(const CompareRun& run);

/// All runs of a comparison, and those that are finished, both in the order of compare_runs.
struct FinishedRuns {
  const std::vector<CompareRun>& runs;
  std::vector<report::ComparedRun> finished;
  std::string out;
  CompareTable table = {};                  ///< of the finished
  std::vector<RecipeNumbers> numbers = {};  ///< of each recipe at each point of the grid
  [[nodiscard]] std::vector<CompareResult> results() const;
};

/// Throws Error where something there is not of a comparison, or one of the runs reads it.
void require_own_outputs(const std::vector<CompareRun>& runs, const std::string& out);

/// Of at least one result.
void write_compare_files(const FinishedRuns& finished);
[[nodiscard]] Json json_of(const FinishedRuns& finished);
/// Tables and what they mean, for a screen.
[[nodiscard]] std::string text_of(const FinishedRuns& finished);
/// Their paths, a line each.
[[nodiscard]] std::string files_text(const std::string& out);

}  // namespace ng::cli
