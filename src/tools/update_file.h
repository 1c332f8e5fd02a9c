// What an optimizer makes of one tensor of a file, step by step, in the numbers of a recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "optim/optimizer.h"
#include "recipe/recipe.h"
#include "tools/tensor_input.h"
#include "train/update_metrics.h"

namespace ng {

struct UpdateFileSettings {
  /// Decay is that of any tensor, and moments are narrow whatever its size.
  OptimizerSettings optimizer = {.least_narrow = 0, .decays_vectors = true};
  float lr = 1e-3f;
  /// Whose overrides apply: a layer, which stands for its weight, or a parameter; empty: by
  /// layer_of_weight().
  std::string layer;
  int64_t blocks = 0;       ///< of the model; 0: the layer's is the last
  int64_t steps = 0;        ///< 0: all gradients of the file, once along a direction
  uint32_t first_step = 0;  ///< of training: Adam's t is one more
  uint32_t tensor_id = 0;   ///< of random keys, as `seed`
  uint64_t seed = 1;
  std::vector<int64_t> show;  ///< updates after which tensors are written; none: after the last
  TensorNames tensors;        ///< which of `in` are meant
  std::string backend = "cpu";
  Threads threads;
  uint64_t thread_order = 0;  ///< of an emulated card
};

struct UpdateFileReport {
  int64_t rows = 0, cols = 0;
  std::string parameter;             ///< "blocks.0.mlp.up.weight"
  bool is_turned = false;            ///< the file has the weight as (inputs, outputs)
  std::vector<std::string> stored;   ///< what was written of each shown update: "moment1 bf16"
  std::vector<UpdateFigures> steps;  ///< every one
  std::vector<int64_t> shown;
  std::vector<std::string> not_finite;  ///< tensors written with such values: "step3.moment2"
  /// States that updates put beyond the range of their formats, for which training would have
  /// skipped them: "step 3: moment2".
  std::vector<std::string> overflowing;
};

/// How many updates of all are done.
using UpdateProgress = std::function<void(int64_t done, int64_t total)>;

/// Updates the weight of `in` (tools/update_input.h) as training with the recipe would, its
/// gradients taken as they are: no clipping, and the recipe's `gradient` and `weight_noise` play no
/// part. Writes to `out`, for each shown number N of updates,
///   stepN.weight      what GEMMs read
///   stepN.master      where the recipe has one: `weight` of the file starts it
///   stepN.<state>     moment1, moment2, momentum: the optimizer's states, after feedback;
///                     residual: w + c; compensation: what Kahan's sum lacks
/// as F32 values, and of what is stored narrow <name>.codes, <name>.scale and <name>.tensor_scale
/// as `cast` writes them (tools/cast_file.h); of moments in two parts <name>.low.codes, of expanded
/// ones <name>.power and <name>.center. These and moments by a map are what the file says in the
/// first update, which stores what it makes of them. Without `weight.scale` in the file, the first
/// scale is that of the weight itself. A direction moves the weight alone: no states, no decay.
/// Throws Error for what does not fit, and on failures of files; `out` then stays as it was.
UpdateFileReport update_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const UpdateFileSettings& settings, const UpdateProgress& progress);

}  // namespace ng
