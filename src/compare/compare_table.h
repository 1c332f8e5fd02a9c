// What the runs of a comparison say together: a row for each recipe at each point of the grid, and
// for each twin. Screen, page, compare.csv, .json and .md are made of these rows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "compare/compare.h"
#include "compare/paired.h"

namespace ng {

/// A validation loss over the seeds. NaN where a run diverged.
struct ComparedLoss {
  double mean = CompareResult::kNan;
  double sd = CompareResult::kNan;  ///< of a sample; NaN for one seed
  std::vector<double> by_seed;
  PairedDifference difference;  ///< to the row that it is compared with
  double p_holm = CompareResult::kNan;
  std::string verdict;  ///< empty where nothing is compared
};

struct CompareRow {
  CompareCase of;
  std::string against;  ///< what differences are to: a recipe, or of one recipe a point of the grid
  std::vector<uint64_t> seeds;
  int64_t diverged = 0;    ///< how many runs have no finite loss at the end
  ComparedLoss own, bf16;  ///< in the recipe's numbers; of the same models in recipe bf16
  double bits_per_byte = CompareResult::kNan;
  double tokens_per_second = 0;
  int64_t skipped = 0;
  BytesPerParameter bytes_per_parameter;
};

/// Rows whose differences are to the first of them: the recipes at a point of the grid, or the
/// points of one recipe.
struct CompareBlock {
  std::vector<size_t> rows;
  PairedScatter own, bf16;
};

/// A run and its twin.
struct NoiseFloor {
  size_t row = 0;            ///< of the twin
  double own = 0, bf16 = 0;  ///< root mean squares of the differences; NaN: not known
};

struct CompareTable {
  double equal = 0;  ///< nats: an interval within this is called equal
  std::vector<CompareRow> rows;
  std::vector<CompareBlock> blocks;
  std::vector<NoiseFloor> floors;
  int64_t tests = 0;                          ///< that p of own losses is corrected for
  std::vector<std::string> machines;          ///< of the results, each once
  std::vector<std::string> recipe_keys = {};  ///< "recipe.KEY=VALUE" over each recipe
  std::vector<std::string> saved_as = {};     ///< train.save_dtype where that rounds: BF16, F16
};

/// `results` in the order of compare_runs; some of them may be missing.
[[nodiscard]] CompareTable compare_table(const std::vector<CompareResult>& results, double equal);

/// "diverged", "1 of 3 diverged": instead of losses; empty where no run did.
[[nodiscard]] std::string divergence_text(const CompareRow& row);

/// "+0.0212 ± 0.0042"; without an interval where nothing says how wide, empty where there is none.
[[nodiscard]] std::string gap_text(const ComparedLoss& loss);

/// Rows of text below a heading; the first column is the recipe.
struct CompareCells {
  std::vector<std::string> heading;
  std::vector<std::vector<std::string>> rows;
};
[[nodiscard]] CompareCells loss_cells(const CompareTable& table);
[[nodiscard]] CompareCells cost_cells(const CompareTable& table);

/// What intervals, verdicts and noise floors are, and what cannot be judged.
[[nodiscard]] std::vector<std::string> compare_sentences(const CompareTable& table);

/// On which machine tokens/s were measured; empty where that is not known.
[[nodiscard]] std::string speed_sentence(const CompareTable& table);

[[nodiscard]] std::string compare_csv(const CompareTable& table);
/// With the folders of runs that have no result yet.
[[nodiscard]] Json compare_json(const CompareTable& table, const std::vector<CompareRun>& runs,
                                const std::vector<CompareResult>& results);

}  // namespace ng
