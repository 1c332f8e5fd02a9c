// What weight noise learned in a run, as a recipe and a model in mixed formats, with its loss
// beside that of rivals: `narrowgauge learned`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "infer/evaluate.h"
#include "learned/cast.h"
#include "recipe/phase_choice.h"

namespace ng::io {
struct ModelSettings;
}

namespace ng {

inline constexpr std::string_view kLearnedFolder = "learned";  ///< of a run's folder

struct LearnedSettings {
  std::string run;                   ///< its folder
  std::string out;                   ///< the folder to write
  std::optional<int64_t> step;       ///< of the checkpoint; else the newest
  std::string data;                  ///< a text; else the run's validation text
  std::vector<std::string> against;  ///< folders of runs of the same model
  bool by_block = false;             ///< the model that is written
  int least_bits = 0;                ///< no narrower format than this
  std::string backend = "cpu";
  Threads threads;
  uint64_t thread_order = 0;  ///< of an emulated card
};

/// What became of a layer.
struct LearnedRow {
  std::string layer;
  int64_t rows = 0, cols = 0;
  int64_t blocks = 0;
  double mean_bits = 0, most_bits = 0;  ///< b_t over blocks
  std::string format;                   ///< of the layer as a whole
  double narrowed = 0;  ///< share of weights that it, of fewer bits, has otherwise than BF16
  double bytes_by_layer = 0, bytes_by_block = 0;  ///< of the weight
  /// Blocks by format, one number for each of learned_formats().
  std::vector<int64_t> blocks_in;
};

/// A model under one cast.
struct LearnedLoss {
  std::string run;      ///< its folder
  std::string cast;     ///< "uncast", "by layer", "by block", "mxfp6_e3m2 throughout"
  std::string numbers;  ///< the recipe, and its phase, in whose products it was evaluated
  double bytes = 0;     ///< of all weights with noise
  Evaluation evaluation;
};

struct LearnedReport {
  LearnedSettings settings;
  int64_t step = 0;
  std::string recipe;   ///< the run's
  MeasuredPhase phase;  ///< of it, in whose numbers uncast weights are evaluated: the last
  std::vector<RecipeMatch> matches;  ///< the layers that its tables mean
  std::string data;                  ///< what was evaluated on
  std::vector<LearnedRow> layers;
  int64_t parameters = 0;           ///< of the model
  int64_t noised = 0;               ///< of those, with noise
  std::vector<LearnedLoss> losses;  ///< the first is that of the uncast model

  /// Of layers with noise.
  [[nodiscard]] double bytes_per_parameter(const LearnedLoss& loss) const;
  /// Of the whole model, all else in FP32.
  [[nodiscard]] double bytes_per_parameter_of_model(const LearnedLoss& loss) const;
};

/// As learned.json has it.
[[nodiscard]] Json learned_json(const LearnedReport& report);

/// The report and all that is to be written.
struct LearnedResult {
  LearnedReport report;
  ModelConfig model;
  std::string recipe;   ///< TOML
  HostWeights weights;  ///< cast
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const io::ModelSettings> settings;  ///< of what the run began with
};

/// Hears which evaluation is going on and how far it is.
using LearnedProgress = std::function<void(const std::string& what, int64_t done, int64_t windows)>;

/// Reads the runs, casts and evaluates; writes nothing. Losses are means over the text in windows
/// of the model's context:
///   uncast    the run's weights, in BF16 or FP32 as the recipe computes
///   by layer  each layer in the narrowest format that covers all of its blocks (recipe_text)
///   by block  each block in its own (cast_by_block)
///   uniform   one format for all layers, of at most the bytes of either
///   others    each as it was trained (in its own recipe, without noise) and cast both ways
/// Throws Error for what is wrong with a run, a text, or `out` where that holds other files.
[[nodiscard]] LearnedResult learn_formats(const LearnedSettings& settings,
                                          const LearnedProgress& progress = {});

/// Writes `settings.out` as a whole: recipe.toml, model/ (F32, which holds the cast values exactly)
/// and learned.json. An older one is replaced.
void write_learned(const LearnedResult& result);

}  // namespace ng
