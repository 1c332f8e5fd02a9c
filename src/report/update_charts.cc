#include "report/update_charts.h"

#include "report/charts.h"

namespace ng::report {
namespace {

Chart chart_of(UpdateMetric metric) {
  switch (metric) {
    case UpdateMetric::changed:
      return {.title = "Weights changed", .y_label = "share", .unit = Chart::Unit::share};
    case UpdateMetric::ratio:
      return {
          .title = "Length", .y_label = "of the change / asked for, logarithmic", .log_y = true};
    case UpdateMetric::projection:
      return {.title = "Projection", .y_label = "on what was asked for"};
    case UpdateMetric::cosine:
      return {.title = "Cosine", .y_label = "with what was asked for"};
    case UpdateMetric::alpha_over_lr:
      break;
  }
  return {.title = "Alpha / lr", .y_label = "logarithmic", .log_y = true};
}

std::vector<Chart> charts_of(const History& history, int64_t block) {
  std::vector<Chart> charts;
  for (size_t i = 0; i < kUpdateMetrics; ++i) {
    SeriesByLayer all;
    for (const auto& [layer, update] : history.updates())
      all.emplace_back(layer, &update.series[i]);
    Chart chart = chart_of(static_cast<UpdateMetric>(i));
    chart.lines = lines_by_kind(all, block);
    if (!chart.lines.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

std::vector<ChartChoice> update_charts(const History& history) {
  std::vector<std::string> names;
  for (const auto& [layer, update] : history.updates()) names.push_back(layer);
  return choices_by_block(names, [&](int64_t block) { return charts_of(history, block); });
}

}  // namespace ng::report
