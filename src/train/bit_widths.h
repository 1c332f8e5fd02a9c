// The bit-widths that noise on weights learns, in figures. [recipes.md §1.1]
#pragma once

#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "model/model.h"

namespace ng {

/// b_t over the blocks of a layer's weight.
struct BitWidths {
  double mean = 0, sd = 0;  ///< sd: of all blocks
  double least = 0, most = 0;
  double up_to_5 = 0, up_to_9 = 0, up_to_12 = 0;  ///< shares of the blocks
};
[[nodiscard]] BitWidths figures_of(const std::vector<float>& bits);
/// The least and the most, of at least one; NaN where one is.
[[nodiscard]] std::pair<float, float> range_of(const std::vector<float>& bits);
/// {"mean", "sd", "min", "max", "up_to_5", "up_to_9", "up_to_12"}
[[nodiscard]] Json json_of(const BitWidths& figures);

/// b_t of each block from what is learned; NIPQ: b without its noise.
[[nodiscard]] std::vector<float> bits_of(const WeightNoise& noise, const std::vector<float>& b_i);

/// {"blocks.0.mlp.up": json_of(its figures), ...} of the layers with noise; empty where there are
/// none.
[[nodiscard]] Json bit_widths_json(const Run& run, Model& model, const Recipe& recipe);

}  // namespace ng
