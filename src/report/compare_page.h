// report.html of a comparison: recipes as lines, their seeds as bands.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>

#include "compare/compare_table.h"
#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// A finished run of a comparison. Curves are smoothed, so that bands over seeds are no noise.
struct ComparedRun {
  CompareRun run;
  CompareResult result;
  Line loss, val_loss, lr, grad_norm, tokens_per_second;
  std::map<std::string, std::array<Line, std::size(kLosses)>>
      operands;                             ///< by role, means over layers
  std::map<std::string, double> seconds;    ///< by kind of operation
  std::string train_text, validation_text;  ///< History's
};

/// Reads the run's metrics.jsonl.
[[nodiscard]] ComparedRun compared_run(const CompareRun& run, const CompareResult& result);

/// "texts: 2 files (5.3 KiB); left out 3 (1.2 KiB): 3 by pattern": what a run names and what was
/// read of it.
[[nodiscard]] std::string trained_on(const ComparedRun& run);
/// "5 % of that text: 8 blocks spread over the text"
[[nodiscard]] std::string validated_on(const ComparedRun& run);

/// `finished` in the order of compare_runs, `planned` runs in all, `table` of their results. `out`:
/// the comparison's folder. `numbers`: lines about phases and the layers that overrides mean.
[[nodiscard]] Page compare_page(std::span<const ComparedRun> finished, const CompareTable& table,
                                size_t planned, const std::string& out, const std::string& numbers);

}  // namespace ng::report
