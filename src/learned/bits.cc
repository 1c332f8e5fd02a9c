#include "learned/bits.h"

#include <algorithm>

#include "base/error.h"
#include "io/tensor_files.h"
#include "math/weight_noise.h"
#include "recipe/layer_names.h"
#include "tools/tensor_input.h"
#include "train/bit_widths.h"

namespace ng {
namespace {

constexpr std::string_view kWeights = "weight.";  // what a checkpoint calls values, not moments

std::string saved(const std::string& parameter) { return fmt::format("{}{}", kWeights, parameter); }

/// The layer whose bit-widths a tensor is; empty where it is none's.
std::string layer_of(const io::SafetensorsEntry& entry) {
  if (!entry.name.starts_with(kWeights) || entry.shape.size() != 2 || entry.elements() == 0 ||
      !io::is_float(entry))
    return "";
  const std::string parameter = entry.name.substr(kWeights.size());
  const std::string layer(layers::layer_of(parameter));
  return parameter == layers::bits_of(layer) ? layer : "";
}

int64_t depth_of(const io::Safetensors& state) {
  int64_t depth = 0;
  for (const io::SafetensorsEntry& entry : state.entries())
    if (entry.name.starts_with(kWeights))
      depth = std::max(
          depth, 1 + layers::place_of(std::string_view(entry.name).substr(kWeights.size())).block);
  return depth;
}

/// Only NIPQ learns one.
std::optional<double> clip_of(const io::Safetensors& state, const std::string& layer) {
  const io::SafetensorsEntry* clip = state.find(saved(layers::clip_of(layer)));
  if (clip == nullptr || clip->elements() != 1 || !io::is_float(*clip)) return std::nullopt;
  return softplus(io::to_floats(*clip).front());
}

/// Of the blocks of a layer's weight. Where rows of packed elements do not fill their last byte, it
/// counts whole.
BlockGrid grid_of(const io::Safetensors& state, const std::string& layer,
                  const LayerRecipe& recipe) {
  const io::SafetensorsEntry& weight = state.at(saved(layers::weight_of(layer)));
  if (weight.shape.size() != 2 || weight.elements() == 0)
    throw Error({.place = state.path(),
                 .key = weight.name,
                 .problem = fmt::format("shape {}", shape_text(weight.shape)),
                 .remedy = "the two dimensions of a weight"});
  const ElementFormat& element = *recipe.weights.storage.element;
  const bool is_packed = weight.dtype != element.safetensors;
  const int64_t cols = is_packed ? weight.shape[1] * 8 / element.bits : weight.shape[1];
  return block_grid(recipe.weight_noise.block, weight.shape[0], cols);
}

BlockBits block_bits(const io::Safetensors& state, const Recipe& recipe, int64_t depth,
                     const LearnedBits& learned) {
  const LayerRecipe of_layer = recipe.layer(
      {.name = learned.layer, .block = layers::place_of(learned.layer).block, .depth = depth}, 0);
  const WeightNoise& noise = of_layer.weight_noise;
  const auto refuse = [&](const std::string& problem) {
    throw Error({.place = state.path(),
                 .key = learned.tensor,
                 .problem = problem,
                 .remedy = "the checkpoint of a run in the recipe " + recipe.name()});
  };
  if (noise.kind == NoiseKind::none) refuse("a layer without noise by the recipe");
  const BlockGrid grid = grid_of(state, learned.layer, of_layer);
  if (grid.down() != learned.rows || grid.across() != learned.cols)
    refuse(fmt::format("{} x {} blocks, but {} x {} by the recipe", learned.rows, learned.cols,
                       grid.down(), grid.across()));
  return {.noise = noise, .b_t = bits_of(noise, learned.b_i), .grid = grid};
}

}  // namespace

std::vector<LearnedBits> learned_bits(const io::Safetensors& state, const Recipe* recipe) {
  const int64_t depth = depth_of(state);
  std::vector<LearnedBits> layers;
  for (const io::SafetensorsEntry& entry : state.entries()) {
    const std::string layer = layer_of(entry);
    if (layer.empty()) continue;
    layers.push_back({.tensor = entry.name,
                      .layer = layer,
                      .rows = entry.shape[0],
                      .cols = entry.shape[1],
                      .b_i = io::to_floats(entry),
                      .clip = clip_of(state, layer),
                      .bits = {}});
    LearnedBits& learned = layers.back();
    if (recipe != nullptr) learned.bits = block_bits(state, *recipe, depth, learned);
  }
  return layers;
}

WeightShares shares_of_weights(std::span<const LearnedBits> layers) {
  WeightShares shares;
  int64_t up_to_5 = 0, up_to_9 = 0, up_to_12 = 0;
  for (const LearnedBits& layer : layers) {
    if (!layer.bits) continue;
    layer.bits->grid.for_each([&](size_t block, const BlockGrid::Part& part) {
      const float b_t = layer.bits->b_t[block];
      shares.weights += part.size();
      up_to_5 += b_t <= 5 ? part.size() : 0;
      up_to_9 += b_t <= 9 ? part.size() : 0;
      up_to_12 += b_t <= 12 ? part.size() : 0;
    });
  }
  if (shares.weights == 0) return shares;
  const auto all = static_cast<double>(shares.weights);
  shares.up_to_5 = static_cast<double>(up_to_5) / all;
  shares.up_to_9 = static_cast<double>(up_to_9) / all;
  shares.up_to_12 = static_cast<double>(up_to_12) / all;
  return shares;
}

}  // namespace ng
