#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
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

const Series* series_of(const std::map<std::string, OperandHistory>& roles, const std::string& role,
                        Loss loss) {
  const auto found = roles.find(role);
  return found == roles.end() ? nullptr : &found->second.series[static_cast<size_t>(loss)];
}

bool has_values(const Line& line) {
  return std::any_of(line.y.begin(), line.y.end(), [](double y) { return std::isfinite(y); });
}

constexpr std::array<Loss, kLosses> kAllLosses = {Loss::sqnr_db, Loss::saturated, Loss::flushed};

Chart chart_of(const History& history, const std::string& role, Loss loss, int64_t block) {
  Chart chart = operand_chart(role, loss);
  SeriesByLayer all;
  for (const auto& [layer, roles] : history.operands())
    all.emplace_back(layer, series_of(roles, role, loss));
  chart.lines = lines_by_kind(all, block);
  return chart;
}

// Those of roles that are counted.
std::vector<Chart> charts_of_operands(const History& history, int64_t block) {
  std::vector<Chart> all;
  for (const std::string& role : role_names()) {
    std::vector<Chart> charts;
    for (const Loss loss : kAllLosses) charts.push_back(chart_of(history, role, loss, block));
    const bool counted = std::any_of(charts.begin(), charts.end(),
                                     [](const Chart& chart) { return !chart.lines.empty(); });
    if (counted) all.insert(all.end(), charts.begin(), charts.end());
  }
  return all;
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

Chart loss_chart(const std::string& title) {
  return {.title = title, .y_label = "cross-entropy, nats per token", .wide = true};
}
Chart lr_chart() { return {.title = "Learning rate", .y_label = "", .unit = Chart::Unit::tiny}; }
Chart grad_norm_chart() {
  return {.title = "Gradient norm", .y_label = "before clipping, logarithmic", .log_y = true};
}
Chart speed_chart() { return {.title = "Speed", .y_label = "tokens/s, moving average"}; }

Chart operand_chart(const std::string& role, Loss loss) {
  switch (loss) {
    case Loss::sqnr_db:
      return {.title = role, .y_label = "SQNR, dB"};
    case Loss::saturated:
      return {.title = role, .y_label = "saturated", .unit = Chart::Unit::share};
    case Loss::flushed:
      break;
  }
  return {.title = role, .y_label = "underflow", .unit = Chart::Unit::share};
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
    const std::function<std::vector<Chart>(int64_t block)>& charts) {
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
