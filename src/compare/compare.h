// The same run in several recipes, seeds and settings: which runs, and what came of each. Every
// recipe sees the same batches in the same order: they depend on the seed and the step alone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_fwd.h"
#include "compare/grid.h"
#include "run/memory_kind.h"
#include "train/session.h"

namespace ng {

/// What tables call recipes: the name, or a file's without folder and ending. Throws Error for a
/// recipe that is missing, cannot run or is named twice.
[[nodiscard]] std::vector<std::string> recipe_labels(const std::vector<std::string>& recipes);

/// Whether a twin of a run in these numbers is another run: rounding or noise is drawn.
[[nodiscard]] bool draws_rounding(const Recipe& recipe);

/// How a twin differs from the run whose noise floor it shows.
enum class TwinOf : uint8_t {
  none,    ///< no twin
  draws,   ///< its draws of rounding and noise are others
  weights  ///< it draws nothing: its first weights are larger by a millionth
};

/// What belongs into one row of a comparison's table.
struct CompareCase {
  std::string label;      ///< of the recipe
  GridSettings settings;  ///< the point of the grid
  TwinOf twin = TwinOf::none;
  friend bool operator==(const CompareCase&, const CompareCase&) = default;
};

/// One training run of a comparison.
struct CompareRun {
  RunConfig config;  ///< with the recipe and the seed
  CompareCase of;
  std::string folder;  ///< OUT/<label>-seed<seed>, below the point of a grid, "-twin" behind it
};

struct ComparePlan {
  std::vector<std::string> recipes;
  int64_t seeds = 3;
  bool with_twin = true;  ///< of the first recipe that draws, else of the first
  std::string out;
};

/// An error that a recipe has at a point of the grid, the same with both named. `point`: text_of()
/// its settings.
[[nodiscard]] Error at_point(const Error& error, const std::string& label,
                             const std::string& point);

/// All points × recipes × seeds, seeds of the first recipe first, a point's twins last. Throws
/// Error where recipe_labels() does and where seeds are too large for a run file.
[[nodiscard]] std::vector<CompareRun> compare_runs(const std::vector<GridPoint>& points,
                                                   const ComparePlan& plan);

/// Planned memory over the number of parameters.
struct BytesPerParameter {
  std::array<double, kMemoryKinds> most{};  ///< of each kind at any time
  double total = 0;                         ///< of what is allocated
};

struct CompareResult {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  CompareCase of;
  uint64_t seed = 0;
  double val_loss = kNan;       ///< at the end; NaN where it was not finite
  double val_loss_bf16 = kNan;  ///< of the same model in recipe bf16; NaN where the loss is, and of
                                ///< pairs
  double bits_per_byte = kNan;  ///< at the end; NaN where the loss is, and of pairs
  int64_t diverged = 0;  ///< the step (of the process that gave up) from which on nothing was
                         ///< finite, for which the run ended; 0: it did not
  double tokens_per_second = 0;
  std::string machine;  ///< on which, and on how many threads; empty: not known
  double seconds = 0;   ///< that all steps and validations take; 0: not known
  int64_t skipped = 0;  ///< steps
  BytesPerParameter bytes_per_parameter;
};

/// Keys of a run file and their values as TOML.
using PrintedSettings = std::map<std::string, std::string>;
/// A key with two values.
struct DifferingSetting {
  std::string key, before, now;
};
/// In what runs of `before` and of `now` differ that changes what they give, in the order of a run
/// file's keys: not in threads. Recipes are compared elsewhere; keys that `before` does not have
/// are left out.
[[nodiscard]] std::vector<DifferingSetting> differing_settings(const PrintedSettings& before,
                                                               const RunConfig& now);

/// Throws Error, which names the recipe and the point of the grid, where the model of one of the
/// runs cannot be in its recipe: known before the first of them trains.
void require_recipes(const std::vector<CompareRun>& runs);

/// Throws Error where the folder of one of the runs holds another run, or something that a run
/// would replace without having written it.
void require_own_folders(const std::vector<CompareRun>& runs);

/// What an earlier call left in the run's folder; none where it did not finish. Throws Error, which
/// names the keys that differ, where the folder holds another run.
[[nodiscard]] std::optional<CompareResult> finished_result(const CompareRun& run);

/// Trains, from the newest checkpoint where there is one, and leaves the result in the folder, also
/// of a run that diverged; none where `stop` was set before the end.
[[nodiscard]] std::optional<CompareResult> train_to_compare(const CompareRun& run,
                                                            const std::atomic<bool>* stop,
                                                            SessionObserver& observer);

[[nodiscard]] Json bytes_json(const BytesPerParameter& bytes);
[[nodiscard]] Json result_json(const CompareResult& result);

}  // namespace ng
