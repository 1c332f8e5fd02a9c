#include "report/update_charts.h"

#include "report/charts.h"

namespace ng::report {
namespace {

Chart update_chart(UpdateMetric metric) {
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

}  // namespace

std::vector<ChartChoice> update_charts(const History& history) {
  return charts_of_metrics(history.updates(), update_chart);
}

}  // namespace ng::report
