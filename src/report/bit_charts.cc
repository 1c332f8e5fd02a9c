#include "report/bit_charts.h"

#include "report/charts.h"

namespace ng::report {
namespace {

Chart bit_chart(BitMetric metric) {
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

}  // namespace

std::vector<ChartChoice> bit_charts(const History& history) {
  return charts_of_metrics(history.bit_widths(), bit_chart);
}

}  // namespace ng::report
