// What a training run has at a checkpoint: its weights, and the bit-widths that weight noise
// learned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "format/block_grid.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/run_config.h"

namespace ng {

/// A weight with noise, and what its blocks have learned.
struct LearnedLayer {
  std::string name;         ///< "blocks.0.mlp.up"
  size_t parameter = 0;     ///< index of its weight in parameter_table()
  BlockGrid grid;           ///< of the weight
  std::vector<float> bits;  ///< b_t of each block

  [[nodiscard]] int64_t size() const { return grid.rows * grid.cols; }
  /// The largest b_t.
  [[nodiscard]] float most_bits() const;
};

/// Throws Error at `place`, naming layer and block, where a bit-width is no finite number.
void require_finite_bits(const LearnedLayer& layer, const std::string& place);

/// FP32 values of every parameter of parameter_table(), rows one after the other.
using HostWeights = std::vector<std::vector<float>>;

/// A run as a checkpoint has it.
struct LearnedRun {
  std::string folder;
  RunConfig config;
  Recipe recipe;
  std::unique_ptr<Tokenizer> tokenizer;
  ModelConfig model;
  int64_t step = 0;
  HostWeights weights;               ///< as evaluation reads them
  HostWeights noise;                 ///< what noise learned: the model's parameters behind those
  std::vector<LearnedLayer> layers;  ///< in the model's order; none without noise
};

/// The run in `folder` at the checkpoint of `step`, the newest where none is named. Throws Error
/// where there is no run or no such checkpoint, for a damaged one, where the recipe is no longer
/// that of the run, and for what is wrong with anything that run.toml names.
[[nodiscard]] LearnedRun read_learned_run(const std::string& folder, std::optional<int64_t> step,
                                          Threads threads);

/// Throws Error where no weight of the run has noise.
void require_noise(const LearnedRun& run);

/// Throws Error, naming the first size that differs, where `other` is another architecture.
void require_same_architecture(const LearnedRun& run, const LearnedRun& other);

}  // namespace ng
