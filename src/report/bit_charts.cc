#include "report/bit_charts.h"

#include "report/charts.h"

namespace ng::report {
namespace {

Chart chart_of(BitMetric metric) {
  switch (metric) {
    case BitMetric::mean:
      return {.title = "Bit-width, mean", .y_label = "bits"};
    case BitMetric::sd:
      return {.title = "Bit-width, deviation over blocks", .y_label = "bits"};
    case BitMetric::least:
      return {.title = "Bit-width, least", .y_label = "bits"};
    case BitMetric::most:
      return {.title = "Bit-width, most", .y_label = "bits"};
    case BitMetric::up_to_5:
      return {.title = "Blocks of 5 bits or fewer", .y_label = "share", .unit = Chart::Unit::share};
    case BitMetric::up_to_9:
      return {.title = "Blocks of 9 bits or fewer", .y_label = "share", .unit = Chart::Unit::share};
    case BitMetric::up_to_12:
      break;
  }
  return {.title = "Blocks of 12 bits or fewer", .y_label = "share", .unit = Chart::Unit::share};
}

std::vector<Chart> charts_of(const History& history, int64_t block) {
  std::vector<Chart> charts;
  for (size_t i = 0; i < kBitMetrics; ++i) {
    SeriesByLayer all;
    for (const auto& [layer, bits] : history.bit_widths()) all.emplace_back(layer, &bits.series[i]);
    Chart chart = chart_of(static_cast<BitMetric>(i));
    chart.lines = lines_by_kind(all, block);
    if (!chart.lines.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

std::vector<ChartChoice> bit_charts(const History& history) {
  std::vector<std::string> names;
  for (const auto& [layer, bits] : history.bit_widths()) names.push_back(layer);
  return choices_by_block(names, [&](int64_t block) { return charts_of(history, block); });
}

}  // namespace ng::report
