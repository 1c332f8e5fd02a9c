// The bit-widths that noise on weights has learned, block by block, as a checkpoint holds them.
// [recipes.md §1.1, §1.3]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/block_grid.h"
#include "io/safetensors.h"
#include "recipe/recipe.h"

namespace ng {

/// What a recipe makes of a layer's learned numbers.
struct BlockBits {
  WeightNoise noise;
  std::vector<float> b_t;  ///< of each block, row by row
  BlockGrid grid;          ///< where they lie in the weight
};

/// Of one layer.
struct LearnedBits {
  std::string tensor;             ///< its name in the checkpoint
  std::string layer;              ///< "blocks.0.mlp.up"
  int64_t rows = 0, cols = 0;     ///< blocks, as they lie in the weight (outputs, inputs)
  std::vector<float> b_i;         ///< of each block, row by row; nipq: β
  std::optional<double> clip{};   ///< nipq: α = softplus of what is stored
  std::optional<BlockBits> bits;  ///< none where the recipe is not known
};

/// Of every layer with noise, in the order of the model; nothing where there is none. `state` are
/// the tensors of a checkpoint; `recipe` that of its run, or null. Throws Error where the recipe
/// gives no noise to a layer, or noise of other blocks.
[[nodiscard]] std::vector<LearnedBits> learned_bits(const io::Safetensors& state,
                                                    const Recipe* recipe);

/// Weights that share a b_t of so much at most, as shares of all with noise: what 8 bits, BF16 and
/// FP16 hold. [source 002, Fig. 5]
struct WeightShares {
  int64_t weights = 0;
  double up_to_5 = 0, up_to_9 = 0, up_to_12 = 0;
};
/// Over all layers whose `bits` are known; 0 where there are none.
[[nodiscard]] WeightShares shares_of_weights(std::span<const LearnedBits> layers);

}  // namespace ng
