// The same run in several recipes and seeds, and what came of it. Every recipe sees the same
// batches in the same order: they depend on the seed and the step alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "run/memory_kind.h"
#include "train/session.h"

namespace ng {

/// What tables call recipes: the name, or a file's without folder and ending. Throws Error for a
/// recipe that is missing, cannot run or is named twice.
[[nodiscard]] std::vector<std::string> recipe_labels(const std::vector<std::string>& recipes);

/// One training run of a comparison.
struct CompareRun {
  RunConfig config;    ///< with the recipe and the seed
  std::string label;   ///< of the recipe
  std::string folder;  ///< OUT/<label>-seed<seed>
};

/// All recipes × seeds, seeds of the first recipe first. Throws Error where recipe_labels() does
/// and where seeds are too large for a run file.
[[nodiscard]] std::vector<CompareRun> compare_runs(const RunConfig& config,
                                                   const std::vector<std::string>& recipes,
                                                   int64_t seeds, const std::string& out);

/// Planned memory over the number of parameters.
struct BytesPerParameter {
  std::array<double, kMemoryKinds> most{};  ///< of each kind at any time
  double total = 0;                         ///< of what is allocated
};

struct CompareResult {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  std::string label;
  uint64_t seed = 0;
  double val_loss = kNan;       ///< at the end; NaN where it was not finite
  double bits_per_byte = kNan;  ///< at the end; NaN where the loss is, and of pairs
  int64_t diverged = 0;  ///< the step (of the process that gave up) from which on nothing was
                         ///< finite, for which the run ended; 0: it did not
  double tokens_per_second = 0;
  int64_t skipped = 0;  ///< steps
  BytesPerParameter bytes_per_parameter;
};

/// Throws Error where the folder of one of the runs holds another run, or something that a run
/// would replace without having written it.
void require_own_folders(const std::vector<CompareRun>& runs);

/// What an earlier call left in the run's folder; none where it did not finish. Throws Error where
/// the folder holds another run.
[[nodiscard]] std::optional<CompareResult> finished_result(const CompareRun& run);

/// Trains, from the newest checkpoint where there is one, and leaves the result in the folder, also
/// of a run that diverged; none where `stop` was set before the end.
[[nodiscard]] std::optional<CompareResult> train_to_compare(const CompareRun& run,
                                                            const std::atomic<bool>* stop,
                                                            SessionObserver& observer);

/// One recipe over its seeds. Deviations are those of a sample, 0 for one seed. Losses are NaN
/// where a run diverged, and so are differences to such a run.
struct CompareRow {
  std::string label;
  int64_t seeds = 0;
  int64_t diverged = 0;  ///< how many runs have no finite loss at the end
  double val_loss = 0, val_loss_sd = 0;
  double bits_per_byte = 0;
  double difference = 0, difference_sd = 0;  ///< of val_loss to the first recipe's, seed by seed
  double tokens_per_second = 0;
  int64_t skipped = 0;
  BytesPerParameter bytes_per_parameter;
};

/// Rows in the order in which recipes first appear; every recipe has the same seeds.
[[nodiscard]] std::vector<CompareRow> compare_rows(const std::vector<CompareResult>& results);

/// "diverged", "1 of 3 diverged": instead of losses; empty where no run did.
[[nodiscard]] std::string divergence_text(const CompareRow& row);

[[nodiscard]] std::string compare_csv(const std::vector<CompareRow>& rows);
[[nodiscard]] Json compare_json(const std::vector<CompareRow>& rows,
                                const std::vector<CompareResult>& results);

}  // namespace ng
