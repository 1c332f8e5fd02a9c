#include "report/bit_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "recipe/layer_names.h"
#include "train/bit_widths.h"

namespace ng::report {
namespace {

using Layers = std::vector<const LearnedBits*>;

/// Those whose b_t is known, block by block in the order of [source 002, Fig. 5].
Layers in_order(std::span<const LearnedBits> layers) {
  Layers known;
  bool is_gated = false;
  for (const LearnedBits& layer : layers) {
    if (!layer.bits) continue;
    known.push_back(&layer);
    is_gated |= layers::place_of(layer.layer).part == layers::kGate;
  }
  std::vector<std::string_view> parts = {layers::kQkv, layers::kQ,       layers::kK,
                                         layers::kV,   layers::kAttnOut, layers::kGate,
                                         layers::kUp,  layers::kDown};
  if (is_gated) std::swap(*(parts.end() - 1), *(parts.end() - 2));
  const auto rank = [&](const LearnedBits* layer) {
    const layers::Place place = layers::place_of(layer->layer);
    return std::tuple(place.block, std::find(parts.begin(), parts.end(), place.part));
  };
  std::stable_sort(known.begin(), known.end(),
                   [&](const LearnedBits* a, const LearnedBits* b) { return rank(a) < rank(b); });
  return known;
}

/// As lines of a kind of layer have in charts of the same layers: by the order of their names.
std::map<std::string_view, int> colors_of(const Layers& layers) {
  std::map<std::string_view, int> colors;
  for (const LearnedBits* layer : layers) colors[layers::place_of(layer->layer).part] = 0;
  int next = 0;
  for (auto& [kind, color] : colors) color = next++;
  return colors;
}

std::string shares_text(const WeightShares& shares) {
  return fmt::format(
      "Of {} weights with noise {:.1f} % have a b_t of 5 or less, {:.1f} % of 9 or less and "
      "{:.1f} % of 12 or less (lines): what 8 bits, BF16 and FP16 hold. Points are means, thick "
      "bars a deviation to both sides, thin ones the range; dotted lines are the range of a block "
      "of the model.",
      count_text(shares.weights), 100 * shares.up_to_5, 100 * shares.up_to_9,
      100 * shares.up_to_12);
}

int64_t divided_up(int64_t blocks, int64_t parts) { return (blocks + parts - 1) / parts; }

HeatMap map_of(const LearnedBits& layer, int64_t side) {
  const std::vector<float>& b_t = layer.bits->b_t;
  const int64_t height = divided_up(layer.rows, side), width = divided_up(layer.cols, side);
  HeatMap map{.title = layer.layer,
              .rows = divided_up(layer.rows, height),
              .cols = divided_up(layer.cols, width)};
  const auto cells = static_cast<size_t>(map.rows * map.cols);
  std::vector<double> sums(cells), counts(cells);
  for (int64_t row = 0; row < layer.rows; ++row)
    for (int64_t col = 0; col < layer.cols; ++col) {
      const auto cell = static_cast<size_t>(row / height * map.cols + col / width);
      sums[cell] += b_t[static_cast<size_t>(row * layer.cols + col)];
      ++counts[cell];
    }
  for (size_t cell = 0; cell < cells; ++cell)
    map.values.push_back(static_cast<float>(sums[cell] / counts[cell]));
  const auto [least, most] = range_of(b_t);
  map.note = fmt::format("{} x {} blocks, {:.3g} to {:.3g}", layer.rows, layer.cols, least, most);
  if (height * width > 1) map.note += fmt::format("; a cell is {} x {}", height, width);
  return map;
}

}  // namespace

RangeChart bit_ranges(std::span<const LearnedBits> layers, int64_t step) {
  const Layers ordered = in_order(layers);
  const std::map<std::string_view, int> colors = colors_of(ordered);
  RangeChart chart{.title = fmt::format("Bit-width by layer after {} steps", count_text(step)),
                   .y_label = "bits, by block of the model",
                   .note = shares_text(shares_of_weights(layers)),
                   .levels = {5, 9, 12}};
  for (const LearnedBits* layer : ordered) {
    const BitWidths figures = figures_of(layer->bits->b_t);
    const layers::Place place = layers::place_of(layer->layer);
    chart.items.push_back({.name = layer->layer,
                           .kind = std::string(place.part),
                           .group = place.block < 0 ? layer->layer : std::to_string(place.block),
                           .color = colors.at(place.part),
                           .mean = figures.mean,
                           .sd = figures.sd,
                           .low = figures.least,
                           .high = figures.most});
  }
  return chart;
}

int64_t most_cells(size_t layers) {
  int64_t side = 64;
  while (side > 1 && static_cast<int64_t>(layers) * side * side > kMapCells) side /= 2;
  return side;
}

std::vector<ChartChoice> bit_maps(std::span<const LearnedBits> layers, int64_t side) {
  const Layers ordered = in_order(layers);
  const auto is_one_block = [](const LearnedBits* layer) { return layer->bits->b_t.size() == 1; };
  if (std::all_of(ordered.begin(), ordered.end(), is_one_block)) return {};
  std::vector<ChartChoice> choices;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t block = 0;
  for (const LearnedBits* layer : ordered) {
    const int64_t own = layers::place_of(layer->layer).block;
    if (choices.empty() || own != block)
      choices.push_back({.name = own < 0 ? "outside of blocks" : fmt::format("block {}", own)});
    block = own;
    choices.back().maps.maps.push_back(map_of(*layer, side));
    for (const float value : choices.back().maps.maps.back().values) {
      low = std::min(low, double{value});
      high = std::max(high, double{value});
    }
  }
  for (ChartChoice& choice : choices) {
    choice.maps.label = "bits";
    choice.maps.low = low;
    choice.maps.high = high;
  }
  return choices;
}

}  // namespace ng::report
