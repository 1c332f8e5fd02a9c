#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "nn/linear.h"
#include "recipe/layer_names.h"

namespace ng::report {
namespace {

struct Spread {
  double sum = 0, low = 0, high = 0;
  int64_t count = 0;

  void add(double mean, double lowest, double highest) {
    sum += mean;
    low = count == 0 ? lowest : std::min(low, lowest);
    high = count == 0 ? highest : std::max(high, highest);
    ++count;
  }
};

const Series* series_of(const CurvesByLayer& roles, const std::string& role, Loss loss) {
  const auto found = roles.find(role);
  return found == roles.end() ? nullptr : &found->second[static_cast<size_t>(loss)];
}

bool has_values(const Line& line) {
  return std::any_of(line.y.begin(), line.y.end(), [](double y) { return std::isfinite(y); });
}

LineChart chart_of(const History& history, const std::string& role, Loss loss, int64_t block) {
  LineChart chart = operand_chart(role, loss);
  SeriesByLayer all;
  for (const auto& [layer, roles] : history.operands())
    all.emplace_back(layer, series_of(roles, role, loss));
  chart.lines = lines_by_kind(all, block);
  return chart;
}

// Those of roles that are counted.
std::vector<LineChart> charts_of_operands(const History& history, int64_t block) {
  std::vector<LineChart> all;
  for (const std::string& role : role_names()) {
    std::vector<LineChart> charts;
    for (const Loss loss : kAllLosses) charts.push_back(chart_of(history, role, loss, block));
    const bool counted = std::any_of(charts.begin(), charts.end(),
                                     [](const LineChart& chart) { return !chart.lines.empty(); });
    if (counted) all.insert(all.end(), charts.begin(), charts.end());
  }
  return all;
}

// A chart of each metric that has values: `looks` without lines, a line for each kind of layer.
std::vector<ChartChoice> charts_of_metrics(const CurvesByLayer& layers,
                                           const std::vector<LineChart>& looks) {
  std::vector<std::string> names;
  std::vector<SeriesByLayer> all(looks.size());
  for (const auto& [layer, curves] : layers) {
    names.push_back(layer);
    for (size_t i = 0; i < looks.size(); ++i) all[i].emplace_back(layer, &curves[i]);
  }
  return choices_by_block(names, [&](int64_t block) {
    std::vector<LineChart> charts;
    for (size_t i = 0; i < looks.size(); ++i) {
      LineChart chart = looks[i];
      chart.lines = lines_by_kind(all[i], block);
      if (!chart.lines.empty()) charts.push_back(std::move(chart));
    }
    return charts;
  });
}

// ---------------------------------------------------------------- preferences

constexpr const char* kPreferenceNote =
    "Of each pair, the log-probability of a completion is the sum over its tokens by the policy; "
    "its reward is β times what that is above the reference's. A margin is the chosen reward less "
    "the rejected one; the accuracy is the share of pairs whose margin is above 0. Training lines "
    "are moving averages.";

// Training and validation of the value that metrics call `name`, in neighbouring colours.
void add_lines(LineChart& chart, const History& history, const std::string& name,
               const std::array<std::string, 2>& labels, int color) {
  const auto of_training = history.preferences().find(name);
  if (of_training != history.preferences().end())
    chart.lines.push_back(smoothed(line_of(labels[0], color, of_training->second)));
  const auto of_validation = history.val_preferences().find(name);
  if (of_validation == history.val_preferences().end()) return;
  chart.lines.push_back(line_of(labels[1], color + 1, of_validation->second));
  chart.lines.back().style = Line::Style::marked;
}

LineChart preference_chart(const History& history, const std::string& name, const char* y_label) {
  LineChart chart{.title = name, .y_label = y_label};
  add_lines(chart, history, name, {"training", "validation"}, 0);
  return chart;
}

LineChart preference_chart_of_both(const History& history, const std::string& kind,
                                   const char* y_label) {
  LineChart chart{.title = fmt::format("{0}/chosen, {0}/rejected", kind), .y_label = y_label};
  add_lines(chart, history, kind + "/chosen", {"chosen", "chosen, validation"}, 2);
  add_lines(chart, history, kind + "/rejected", {"rejected", "rejected, validation"}, 4);
  return chart;
}

}  // namespace

Line smoothed(Line line) {
  constexpr size_t kFew = 50, kPart = 50;
  line.low.clear();
  line.high.clear();
  const size_t count = line.y.size();
  if (count < kFew) return line;
  std::vector<double> sums = {0}, finite = {0};
  for (const double y : line.y) {
    sums.push_back(sums.back() + (std::isfinite(y) ? y : 0));
    finite.push_back(finite.back() + (std::isfinite(y) ? 1 : 0));
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t reach = std::min({count / kPart / 2 + 1, i, count - 1 - i});
    const size_t begin = i - reach, end = i + reach + 1;
    if (std::isfinite(line.y[i]))
      line.y[i] = (sums[end] - sums[begin]) / (finite[end] - finite[begin]);
  }
  return line;
}

Line mean_of(const std::string& name, int color, std::span<const Line> lines) {
  std::map<double, Spread> by_x;
  bool has_band = lines.size() > 1;
  for (const Line& line : lines) {
    has_band |= !line.low.empty();
    for (size_t i = 0; i < line.x.size(); ++i) {
      Spread& spread = by_x[line.x[i]];
      if (!std::isfinite(line.y[i])) continue;
      const bool own_band = !line.low.empty();
      spread.add(line.y[i], own_band ? line.low[i] : line.y[i],
                 own_band ? line.high[i] : line.y[i]);
    }
  }
  Line mean{.name = name, .color = color, .style = Line::Style::plain, .x = {}, .y = {}};
  for (const auto& [x, spread] : by_x) {
    const bool known = spread.count > 0;
    mean.x.push_back(x);
    mean.y.push_back(known ? spread.sum / static_cast<double>(spread.count) : NAN);
    if (!has_band) continue;
    mean.low.push_back(known ? spread.low : NAN);
    mean.high.push_back(known ? spread.high : NAN);
  }
  return mean;
}

LineChart loss_chart(const std::string& title) {
  return {.title = title, .y_label = "cross-entropy, nats per token", .wide = true};
}
LineChart lr_chart() {
  return {.title = "Learning rate", .y_label = "", .unit = LineChart::Unit::tiny};
}
LineChart grad_norm_chart() {
  return {.title = "Gradient norm", .y_label = "before clipping, logarithmic", .log_y = true};
}
LineChart speed_chart() { return {.title = "Speed", .y_label = "tokens/s, moving average"}; }

LineChart operand_chart(const std::string& role, Loss loss) {
  const auto share = LineChart::Unit::share;
  const LineChart looks[] = {{.title = role, .y_label = "SQNR, dB"},
                             {.title = role, .y_label = "saturated", .unit = share},
                             {.title = role, .y_label = "underflow", .unit = share}};
  return looks[static_cast<size_t>(loss)];
}

std::vector<Line> lines_by_kind(const SeriesByLayer& all, int64_t block) {
  std::map<std::string, std::vector<Line>> by_kind;
  for (const auto& [layer, series] : all) {
    const layers::Place place = layers::place_of(layer);
    // Kinds without values keep their colours.
    std::vector<Line>& lines = by_kind[std::string(place.part)];
    if (series != nullptr && (block == -1 || place.block == block || place.block == -1))
      lines.push_back(line_of(layer, 0, *series));
  }
  std::vector<Line> means;
  int color = 0;
  for (const auto& [kind, lines] : by_kind) {
    Line line = mean_of(kind, color++, lines);
    if (has_values(line)) means.push_back(std::move(line));
  }
  return means;
}

std::vector<ChartChoice> choices_by_block(
    const std::vector<std::string>& names,
    const std::function<std::vector<LineChart>(int64_t block)>& charts) {
  std::set<int64_t> blocks;
  for (const std::string& layer : names) blocks.insert(layers::place_of(layer).block);
  blocks.erase(-1);
  std::vector<ChartChoice> choices = {{.name = "all, mean and range", .charts = charts(-1)}};
  if (choices.front().charts.empty()) return {};
  if (blocks.size() < 2) return choices;
  for (const int64_t block : blocks)
    choices.push_back({.name = fmt::format("block {}", block), .charts = charts(block)});
  return choices;
}

std::vector<ChartChoice> operand_charts(const History& history) {
  std::vector<std::string> names;
  for (const auto& [layer, roles] : history.operands()) names.push_back(layer);
  return choices_by_block(names, [&](int64_t block) { return charts_of_operands(history, block); });
}

// By UpdateMetric and BitMetric.
std::vector<ChartChoice> update_charts(const History& history) {
  return charts_of_metrics(
      history.updates(),
      {{.title = "Weights changed", .y_label = "share", .unit = LineChart::Unit::share},
       {.title = "Length", .y_label = "of the change / asked for, logarithmic", .log_y = true},
       {.title = "Projection", .y_label = "on what was asked for"},
       {.title = "Cosine", .y_label = "with what was asked for"},
       {.title = "Alpha / lr", .y_label = "logarithmic", .log_y = true}});
}

std::vector<ChartChoice> bit_charts(const History& history) {
  const auto share = LineChart::Unit::share;
  return charts_of_metrics(
      history.bit_widths(),
      {{.title = "Bit-width, mean", .y_label = "bits"},
       {.title = "Bit-width, deviation over blocks", .y_label = "bits"},
       {.title = "Bit-width, least", .y_label = "bits"},
       {.title = "Bit-width, most", .y_label = "bits"},
       {.title = "Blocks of 5 bits or fewer", .y_label = "share", .unit = share},
       {.title = "Blocks of 9 bits or fewer", .y_label = "share", .unit = share},
       {.title = "Blocks of 12 bits or fewer", .y_label = "share", .unit = share}});
}

Section preference_section(const History& history) {
  return {.heading = "Preferences",
          .note = kPreferenceNote,
          .charts = {preference_chart(history, "rewards/margins", "nats"),
                     preference_chart(history, "rewards/accuracies", "share of pairs"),
                     preference_chart_of_both(history, "rewards", "nats"),
                     preference_chart_of_both(history, "logps", "nats per completion")}};
}

Line operand_line(const History& history, const std::string& role, Loss loss) {
  std::vector<Line> lines;
  for (const auto& [layer, roles] : history.operands())
    if (const Series* series = series_of(roles, role, loss); series != nullptr)
      lines.push_back(line_of(layer, 0, *series));
  return mean_of(role, 0, lines);
}

std::vector<std::string> role_names() {
  std::vector<std::string> names;
  for (size_t role = 0; role < kOperandRoles; ++role)
    names.emplace_back(name_of(static_cast<OperandRole>(role)));
  return names;
}

}  // namespace ng::report
