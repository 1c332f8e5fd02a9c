#include "report/preference_charts.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "report/charts.h"

namespace ng::report {
namespace {

constexpr const char* kMarginNote =
    "Of each pair, the log-probability of a completion is the sum over its tokens by the policy; "
    "its "
    "reward is β times what that is above the reference's. A margin is the chosen reward less the "
    "rejected one; the accuracy is the share of pairs whose margin is above 0. Training lines are "
    "moving averages.";

// Training and validation of the value that metrics call `name`, in neighbouring colours.
void add_lines(Chart& chart, const History& history, const std::string& name,
               const std::array<std::string, 2>& labels, int color) {
  const auto of_training = history.preferences().find(name);
  if (of_training != history.preferences().end())
    chart.lines.push_back(smoothed(line_of(labels[0], color, of_training->second)));
  const auto of_validation = history.val_preferences().find(name);
  if (of_validation == history.val_preferences().end()) return;
  chart.lines.push_back(line_of(labels[1], color + 1, of_validation->second));
  chart.lines.back().style = Line::Style::marked;
}

Chart chart_of(const History& history, const std::string& name, const char* y_label) {
  Chart chart{.title = name, .y_label = y_label};
  add_lines(chart, history, name, {"training", "validation"}, 0);
  return chart;
}

Chart chart_of_both(const History& history, const std::string& kind, const char* y_label) {
  Chart chart{.title = fmt::format("{0}/chosen, {0}/rejected", kind), .y_label = y_label};
  add_lines(chart, history, kind + "/chosen", {"chosen", "chosen, validation"}, 2);
  add_lines(chart, history, kind + "/rejected", {"rejected", "rejected, validation"}, 4);
  return chart;
}

}  // namespace

Section preference_section(const History& history) {
  return {.heading = "Preferences",
          .note = kMarginNote,
          .charts = {chart_of(history, "rewards/margins", "nats"),
                     chart_of(history, "rewards/accuracies", "share of pairs"),
                     chart_of_both(history, "rewards", "nats"),
                     chart_of_both(history, "logps", "nats per completion")}};
}

}  // namespace ng::report
