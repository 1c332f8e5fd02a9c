#include "chart/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ng::chart {
namespace {

/// Colours of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which white paper
/// swallows; black last.
constexpr Look kLooks[] = {
    {"#0072B2", ""},     {"#E69F00", "7 3"}, {"#009E73", "2 3"},     {"#D55E00", "9 3 2 3"},
    {"#56B4E9", "12 3"}, {"#CC79A7", "4 2"}, {"#555555", "2 2 6 2"}, {"#000000", "1 4"},
};

/// Widens [low, high] so that it holds `value`, which has a place on the axis.
void include(Axis& axis, double value) {
  if (!axis.has_place(value)) return;
  axis.low = std::min(axis.low, value);
  axis.high = std::max(axis.high, value);
}

std::string swatch(const Chart& chart, const Series& series, size_t number) {
  const char* colour = series.reference ? kReferenceColour : look_of(number).colour;
  if (chart.kind == Chart::Kind::points)
    return fmt::format("<g fill=\"{}\">{}</g>", colour, mark(number, kSwatch / 2, -4.5));
  if (chart.kind == Chart::Kind::bars)
    return fmt::format(
        "<rect x=\"4\" y=\"-11\" width=\"13\" height=\"13\" fill=\"{}\" stroke=\"#333\" "
        "stroke-width=\"0.6\"/>",
        colour);
  std::string picture =
      series.no_line ? "" : line_of(0, -4.5, kSwatch, -4.5, line_style(series, number));
  if (!series.reference && chart.x.size() <= kMostMarks)
    picture += fmt::format("<g fill=\"{}\">{}</g>", colour, mark(number, kSwatch / 2, -4.5));
  return picture;
}

/// The largest step whose powers of ten are `most` at most.
std::vector<double> powers_of_ten(double low, double high, int most) {
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  const int step = std::max(1, (last - first + most) / most);
  std::vector<double> ticks;
  for (int e = first; e <= last; ++e)
    if (e % step == 0) ticks.push_back(std::pow(10.0, e));
  return ticks;
}

}  // namespace

const Look& look_of(size_t number) { return kLooks[number % std::size(kLooks)]; }

// Sans-serif letters are 0.55 of their size on average.
double text_width(std::string_view text) {
  const auto bytes_behind = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const auto letters =
      text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), bytes_behind));
  return 0.56 * kFont * static_cast<double>(letters);
}

std::string text_at(double x, double y, const char* anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string line_of(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string mark(size_t series, double x, double y) {
  const auto polygon = [&](std::string_view points) {
    return fmt::format("<polygon transform=\"translate({:.1f} {:.1f})\" points=\"{}\"/>\n", x, y,
                       points);
  };
  switch (series % 5) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\"/>\n", x, y);
    case 1:
      return polygon("-3.4,-3.4 3.4,-3.4 3.4,3.4 -3.4,3.4");
    case 2:
      return polygon("0,-4.6 4.3,3.2 -4.3,3.2");
    case 3:
      return polygon("0,-4.8 4.8,0 0,4.8 -4.8,0");
    default:
      return polygon("0,4.6 4.3,-3.2 -4.3,-3.2");
  }
}

std::string line_style(const Series& series, size_t number) {
  if (series.reference)
    return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"",
                       kReferenceColour);
  const Look& look = look_of(number);
  const std::string dash =
      *look.dash != 0 ? fmt::format(" stroke-dasharray=\"{}\"", look.dash) : "";
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", look.colour, dash);
}

double Axis::at(double value) const {
  const double share =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return begin + share * (end - begin);
}

bool Axis::has_place(double value) const {
  return std::isfinite(value) && (!logarithmic || value > 0);
}

bool Axis::holds(double value) const { return has_place(value) && value >= low && value <= high; }

Axis y_range(const Chart& chart) {
  Axis axis{.low = HUGE_VAL, .high = -HUGE_VAL, .logarithmic = chart.log_y};
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      const double error =
          i < series.error.size() && std::isfinite(series.error[i]) ? series.error[i] : 0;
      include(axis, series.y[i] - error);
      include(axis, series.y[i] + error);
    }
    for (const auto* more : {&series.expected, &series.low, &series.high})
      for (const double value : *more) include(axis, value);
  }
  for (const double end : {-chart.strip, chart.strip})
    if (chart.strip != 0) include(axis, end);
  if (std::isfinite(chart.y_low)) axis.low = chart.y_low;
  if (std::isfinite(chart.y_high)) axis.high = chart.y_high;
  NG_CHECK(axis.low <= axis.high, chart.caption);
  if (chart.log_y) {
    const double room = std::pow(axis.high / axis.low, 0.05) * 1.1;
    return {.low = axis.low / room, .high = axis.high * room, .logarithmic = true};
  }
  const double room = 0.06 * (axis.high - axis.low);
  const bool zero = chart.kind == Chart::Kind::bars || chart.from_zero;
  const double low = zero ? std::min(axis.low, 0.0) : axis.low;
  const double high = zero ? std::max(axis.high, 0.0) : axis.high;
  axis.low = low < 0 || !zero ? low - room : low;
  axis.high = high > 0 || !zero ? high + room : high;
  if (axis.low == axis.high) axis.high += 1;
  return axis;
}

std::vector<double> round_ticks(double low, double high, int most) {
  NG_CHECK(low < high && most >= 2, low, high, most);
  const double least_step = (high - low) / most;
  const double decade = std::pow(10, std::floor(std::log10(least_step)));
  double step = 10 * decade;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * decade >= least_step) step = factor * decade;
  std::vector<double> ticks;
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; ++n)
    ticks.push_back(n * step);
  return ticks;
}

std::vector<double> ticks_of(const Axis& axis, int most) {
  return axis.logarithmic ? powers_of_ten(axis.low, axis.high, most)
                          : round_ticks(axis.low, axis.high, most);
}

std::vector<double> places_of(const Axis& axis, int most) {
  if (!axis.logarithmic) return round_ticks(axis.low, axis.high, most);
  std::vector<double> places;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high;
       decade *= 10)
    for (const double factor : {1, 2, 5})
      if (axis.holds(factor * decade)) places.push_back(factor * decade);
  return places;
}

std::vector<std::string> tick_texts(std::span<const double> ticks, bool logarithmic) {
  std::vector<std::string> texts;
  const auto is_power_of_ten = [](double tick) {
    const double exponent = std::log10(tick);
    return std::abs(exponent - std::round(exponent)) < 1e-9;
  };
  if (logarithmic && std::all_of(ticks.begin(), ticks.end(), is_power_of_ten)) {
    for (const double tick : ticks) texts.push_back(fmt::format("1e{:.0f}", std::log10(tick)));
    return texts;
  }
  double step = HUGE_VAL;
  for (size_t i = 1; i < ticks.size(); ++i) step = std::min(step, ticks[i] - ticks[i - 1]);
  int decimals = 0;
  for (double rest = step; decimals < 12 && std::abs(rest - std::round(rest)) > 1e-6 * step;
       rest *= 10)
    ++decimals;
  const bool tiny = decimals > 6;
  for (const double tick : ticks) {
    const double value = std::abs(tick) < 1e-9 * step ? 0 : tick;  // never "-0"
    texts.push_back(tiny ? fmt::format("{:.3g}", value) : fmt::format("{:.{}f}", value, decimals));
  }
  return texts;
}

Box free_box(std::span<const Box> taken, const Box& point, double width, double left,
             double right) {
  const double beside = point.right + 3, before = point.left - 3 - width;
  const double above = (point.left + point.right - width) / 2;
  const double offsets[][2] = {{beside, 0},   {before, 0},  {above, -13},  {above, 15},
                               {beside, -13}, {beside, 14}, {before, -13}, {before, 14},
                               {beside, -26}, {beside, 27}, {before, 27}};
  const auto at = [&](double x, double down) -> Box {
    return {x, point.top - 2 + down, x + width, point.bottom + 2 + down};
  };
  for (const auto& [x, down] : offsets) {
    const Box box = at(x, down);
    const auto covers = [&](const Box& other) {
      return box.left < other.right && other.left < box.right && box.top < other.bottom &&
             other.top < box.bottom;
    };
    if (box.left > left && box.right < right && std::ranges::none_of(taken, covers)) return box;
  }
  return at(beside, 0);
}

Legend legend_of(const Chart& chart, double left, double right) {
  double x = left;
  Legend legend{.svg = {}, .bottom = kLine};
  const auto entry = [&](std::string_view name, const std::string& picture) {
    const double width = kSwatch + 8 + text_width(name) + 20;
    if (x > left && x + width > right) x = left, legend.bottom += kLine;
    legend.svg += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">{}</g>\n", x,
                              legend.bottom, picture) +
                  text_at(x + kSwatch + 6, legend.bottom, "start", name);
    x += width;
  };
  size_t number = 0;
  for (const Series& series : chart.series) {
    entry(series.name, swatch(chart, series, number));
    number += series.reference ? 0 : 1;
  }
  if (!chart.expected_name.empty())
    entry(chart.expected_name,
          line_of(4, -4.5, kSwatch - 4, -4.5, "stroke=\"#000\" stroke-width=\"2.5\""));
  return legend;
}

}  // namespace ng::chart
