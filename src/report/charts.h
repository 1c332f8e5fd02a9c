// The charts that pages of one run and of several have in common.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// The mean over about a fiftieth of the points, as many before as after each; the line itself
/// where there are few.
[[nodiscard]] Line smoothed(Line line);

/// The mean of lines at each x where one of them has a value, with a band from their lowest to
/// their highest where there are several.
[[nodiscard]] Line mean_of(const std::string& name, int color, std::span<const Line> lines);

/// Layers and a series of each; null where one has none.
using SeriesByLayer = std::vector<std::pair<std::string, const Series*>>;
/// A line for each kind of layer, over all blocks, or of one and what lies outside of blocks;
/// colours by the order of kinds.
[[nodiscard]] std::vector<Line> lines_by_kind(const SeriesByLayer& all, int64_t block);

/// What `charts` makes of all blocks, which are -1 to it, and of each of several; `names` are those
/// of layers. Nothing where there are no charts.
[[nodiscard]] std::vector<ChartChoice> choices_by_block(
    const std::vector<std::string>& names,
    const std::function<std::vector<Chart>(int64_t block)>& charts);

/// A chart of each metric that has values, over all blocks and for each block; a line for each kind
/// of layer. An `OfLayer` has a series for each metric, `chart_of` makes a metric's chart without
/// lines.
template <class OfLayer, class Metric>
[[nodiscard]] std::vector<ChartChoice> charts_of_metrics(
    const std::map<std::string, OfLayer>& layers, Chart (*chart_of)(Metric)) {
  std::vector<std::string> names;
  std::array<SeriesByLayer, std::tuple_size_v<decltype(OfLayer::series)>> metrics;
  for (const auto& [layer, of_layer] : layers) {
    names.push_back(layer);
    for (size_t i = 0; i < metrics.size(); ++i) metrics[i].emplace_back(layer, &of_layer.series[i]);
  }
  return choices_by_block(names, [&](int64_t block) {
    std::vector<Chart> charts;
    for (size_t i = 0; i < metrics.size(); ++i) {
      Chart chart = chart_of(static_cast<Metric>(i));
      chart.lines = lines_by_kind(metrics[i], block);
      if (!chart.lines.empty()) charts.push_back(std::move(chart));
    }
    return charts;
  });
}

/// Charts without lines: of training and validation loss, and of what runs beside them.
[[nodiscard]] Chart loss_chart(const std::string& title);
[[nodiscard]] Chart lr_chart();
[[nodiscard]] Chart grad_norm_chart();
[[nodiscard]] Chart speed_chart();
/// Of one operand.
[[nodiscard]] Chart operand_chart(const std::string& role, Loss loss);

/// What the casts of a run lose: the six roles with a chart of each loss, over all blocks and for
/// each block; a line for each kind of layer.
[[nodiscard]] std::vector<ChartChoice> operand_charts(const History& history);

/// The same of one role over all layers and blocks; no values where nothing was counted.
[[nodiscard]] Line operand_line(const History& history, const std::string& role, Loss loss);

/// Roles in the order of the recipe.
[[nodiscard]] std::vector<std::string> role_names();

/// What the numbers of these charts are.
inline constexpr const char* kOperandNote =
    "What is lost when the operands of the linear layers' products are cast: the signal-to-noise "
    "ratio (SQNR, of a sample of each operand), the share of values above the largest the format "
    "has (saturated), and of those that became 0 (underflow). Operands in FP32 and BF16 are not "
    "counted; shares of an operand that several layers have in common are counted under the first "
    "of them.";

}  // namespace ng::report
