#include "chart/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "chart/parts.h"

namespace ng::chart {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 380;
constexpr double kPanelHeight = 270;
constexpr double kRight = 16;   // margin
constexpr double kBottom = 52;  // tick labels and the axis' name
// Degrees, of group names that do not fit side by side: by which lines of text lie apart.
constexpr double kTilt = 35, kSteepTilt = 65;
constexpr double kTiltedApart = 23;  // between groups, for the first of them

/// Of a picture: its upper edge, below what stands above it, and its whole width and height.
struct Size {
  double top = 0, width = kWidth, height = kHeight;
};

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

class Drawing {
 public:
  Drawing(const Chart& chart, const Size& size) : chart_(chart), size_(size), y_(y_range(chart)) {
    y_ticks_ = ticks_of(y_, 7);
    double left = left_of(chart);
    const double widest = widest_category();
    const double group =
        (size.width - kRight - left) / static_cast<double>(chart.categories.size());
    if (has_groups(chart) && widest > 0.95 * group)
      tilt_ = group < kTiltedApart ? kSteepTilt : kTilt;
    if (tilt_ > 0) left = std::min(left_of_names(left), size.width / 2);
    y_.begin = size.height - kBottom - (tilt_ > 0 ? std::sin(radians(tilt_)) * widest - 6 : 0);
    y_.end = size.top + 10;
    x_ = {.low = 0,
          .high = static_cast<double>(chart.categories.size()),
          .begin = left,
          .end = size.width - kRight};
    if (chart.kind == Chart::Kind::lines) {
      x_.low = chart.x.front();
      x_.high = chart.x.back();
      x_.logarithmic = chart.log_x;
    }
    svg_ = strip() + frame() + (has_groups(chart) ? groups() : lines() + labels());
  }

  /// Where the picture of a chart begins, right of the ticks of its axis.
  [[nodiscard]] static double left_of(const Chart& chart) {
    double left = 0;
    for (const std::string& text : tick_texts(ticks_of(y_range(chart), 7), chart.log_y))
      left = std::max(left, text_width(text));
    return left + 34;  // the axis' name, and air
  }
  [[nodiscard]] const std::string& text() const { return svg_; }

 private:
  [[nodiscard]] double widest_category() const {
    double widest = 0;
    for (const std::string& name : chart_.categories) widest = std::max(widest, text_width(name));
    return widest;
  }

  /// Right enough for names that are tilted, of which each ends below its group. Letters of
  /// another font may be a tenth wider.
  [[nodiscard]] double left_of_names(double left) const {
    const double right = size_.width - kRight;
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      const double share =
          (static_cast<double>(i) + 0.5) / static_cast<double>(chart_.categories.size());
      const double reach = 1.1 * std::cos(radians(tilt_)) * text_width(chart_.categories[i]);
      left = std::max(left, (reach - share * right) / (1 - share));
    }
    return left;
  }

  /// Axes, grid lines, ticks and names.
  [[nodiscard]] std::string frame() const {
    std::string out;
    const std::vector<std::string> texts = tick_texts(y_ticks_, y_.logarithmic);
    for (size_t i = 0; i < y_ticks_.size(); ++i) {
      const double y = y_.at(y_ticks_[i]);
      out += line_of(x_.begin, y, x_.end, y, "stroke=\"#ddd\"") +
             text_at(x_.begin - 7, y + 4.5, "end", texts[i]);
    }
    const double zero = y_.at(std::clamp(0.0, y_.low, y_.high));  // or the lower edge
    out += line_of(x_.begin, zero, x_.end, zero, "stroke=\"#333\"") +
           line_of(x_.begin, y_.begin, x_.begin, y_.end, "stroke=\"#333\"");
    out += has_groups(chart_) ? categories() : x_ticks();
    out += text_at((x_.begin + x_.end) / 2, size_.height - 8, "middle", chart_.x_label);
    const double middle = (y_.begin + y_.end) / 2;
    return out + fmt::format(
                     "<text transform=\"translate(15 {:.1f}) rotate(-90)\" "
                     "text-anchor=\"middle\">{}</text>\n",
                     middle, escaped(chart_.y_label));
  }

  [[nodiscard]] std::string x_ticks() const {
    const std::vector<double> ticks = chart_.x_ticks.empty() ? places_of(x_, 10) : chart_.x_ticks;
    const std::vector<std::string> texts = tick_texts(ticks, x_.logarithmic);
    std::string out;
    for (size_t i = 0; i < ticks.size(); ++i) {
      const double x = x_.at(ticks[i]);
      out += line_of(x, y_.begin, x, y_.begin + 5, "stroke=\"#333\"") +
             text_at(std::min(x, size_.width - 0.55 * text_width(texts[i])), y_.begin + 19,
                     "middle", texts[i]);  // within the picture in a wider font, too
    }
    return out;
  }

  [[nodiscard]] std::string categories() const {
    std::string out;
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      const double x = x_.at(static_cast<double>(i) + 0.5);
      if (tilt_ > 0)
        out += fmt::format("<g transform=\"translate({:.1f} {:.1f}) rotate(-{:.0f})\">{}</g>\n",
                           x + 4, y_.begin + 15, tilt_, text_at(0, 0, "end", chart_.categories[i]));
      else
        out += text_at(x, y_.begin + 19, "middle", chart_.categories[i]);
    }
    return out;
  }

  [[nodiscard]] std::string error_bar(const Series& series, size_t i, double x) const {
    if (i >= series.error.size() || !std::isfinite(series.error[i])) return "";
    const double top = y_.at(series.y[i] + series.error[i]);
    const double low = series.y[i] - series.error[i];
    const double bottom = y_.at(y_.has_place(low) ? low : y_.low);
    constexpr const char* kStyle = "stroke=\"#000\" stroke-width=\"1\"";
    return line_of(x, top, x, bottom, kStyle) + line_of(x - 3, top, x + 3, top, kStyle) +
           line_of(x - 3, bottom, x + 3, bottom, kStyle);
  }

  [[nodiscard]] std::string expected_mark(const Series& series, size_t i, double x,
                                          double half) const {
    if (i >= series.expected.size() || !y_.holds(series.expected[i])) return "";
    const double y = y_.at(series.expected[i]);
    return line_of(x - half, y, x + half, y, "stroke=\"#000\" stroke-width=\"2\"");
  }

  [[nodiscard]] std::string strip() const {
    if (chart_.strip == 0) return "";
    const double top = y_.at(chart_.strip), bottom = y_.at(-chart_.strip);
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "fill=\"#000\" fill-opacity=\"0.08\"/>\n",
        x_.begin, top, x_.end - x_.begin, bottom - top);
  }

  [[nodiscard]] std::string bar(size_t s, double value, double centre, double width) const {
    const double from = y_.at(std::max(value, 0.0)), to = y_.at(std::min(value, 0.0));
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "fill=\"{}\" stroke=\"#333\" stroke-width=\"0.6\"/>\n",
        centre - 0.46 * width, from, 0.92 * width, to - from, look_of(s).colour);
  }

  /// Bars stand side by side, points in the middle of their group.
  [[nodiscard]] std::string groups() const {
    std::string out;
    const bool are_bars = chart_.kind == Chart::Kind::bars;
    const double group = x_.at(1) - x_.at(0);
    const auto count = static_cast<double>(are_bars ? chart_.series.size() : 1);
    const double width = std::min(0.82 * group / count, 60.0);
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const Series& series = chart_.series[s];
      const double place = are_bars ? static_cast<double>(s) + 0.5 - 0.5 * count : 0;
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!y_.has_place(series.y[i])) continue;
        const double centre = x_.at(static_cast<double>(i) + 0.5) + place * width;
        out += are_bars ? bar(s, series.y[i], centre, width)
                        : fmt::format("<g fill=\"{}\">{}</g>\n", look_of(s).colour,
                                      mark(s, centre, y_.at(series.y[i])));
        out += error_bar(series, i, centre) + expected_mark(series, i, centre, 0.46 * width);
      }
    }
    return out;
  }

  /// From the highest values to the right, and back along the lowest.
  [[nodiscard]] std::string band(const Series& series, size_t number) const {
    std::string points;
    const auto add = [&](const std::vector<double>& values, size_t i) {
      if (y_.holds(values[i]))
        points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? 'M' : 'L', x_.at(chart_.x[i]),
                              y_.at(values[i]));
    };
    for (size_t i = 0; i < series.high.size(); ++i) add(series.high, i);
    for (size_t i = series.low.size(); i-- > 0;) add(series.low, i);
    if (points.empty()) return "";
    return fmt::format("<path d=\"{}\" fill=\"{}\" fill-opacity=\"0.15\"/>\n", points,
                       look_of(number).colour);
  }

  /// Beside the marks of all series, none over another where there is room.
  [[nodiscard]] std::string labels() const {
    std::string out;
    std::vector<Box> taken;
    for (const Series& series : chart_.series)
      for (size_t i = 0; i < series.y.size(); ++i)
        if (y_.holds(series.y[i])) taken.push_back(around(i, series.y[i]));
    for (const Series& series : chart_.series)
      for (size_t i = 0; i < std::min(series.y.size(), chart_.labels.size()); ++i) {
        if (!y_.holds(series.y[i])) continue;
        const Box box =
            free_box(taken, around(i, series.y[i]), text_width(chart_.labels[i]), x_.begin, x_.end);
        taken.push_back(box);
        out += text_at(box.left, box.bottom - 3, "start", chart_.labels[i]);
      }
    return out;
  }

  [[nodiscard]] Box around(size_t i, double value) const {
    const double x = x_.at(chart_.x[i]), y = y_.at(value);
    return {x - 5, y - 5, x + 5, y + 5};
  }

  [[nodiscard]] std::string lines() const {
    std::string out;
    size_t number = 0;
    for (const Series& series : chart_.series) {
      std::string points;  // one path, its gaps moves
      std::string marks;
      bool pen_down = false;
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!y_.holds(series.y[i])) {
          pen_down = pen_down && series.joined;
          continue;
        }
        const double x = x_.at(chart_.x[i]);
        const double y = y_.at(series.y[i]);
        points += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x, y);
        pen_down = true;
        if (!series.reference && chart_.x.size() <= kMostMarks) marks += mark(number, x, y);
        marks += error_bar(series, i, x) + expected_mark(series, i, x, 7);
      }
      out += band(series, number);
      if (!series.no_line)
        out += fmt::format("<path d=\"{}\" {}/>\n", points, line_style(series, number));
      out += fmt::format("<g fill=\"{}\">{}</g>\n", look_of(number).colour, marks);
      number += series.reference ? 0 : 1;
    }
    return out;
  }

  const Chart& chart_;
  Size size_;
  Axis x_, y_;
  std::vector<double> y_ticks_;
  double tilt_ = 0;  // degrees, of group names
  std::string svg_;
};

void check(const Chart& chart) {
  NG_CHECK(!chart.series.empty() &&
               (has_groups(chart) ? !chart.categories.empty() : chart.x.size() >= 2),
           chart.caption);
}

std::string svg_element(double height, std::string_view title, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{:.0f}\" fill=\"#222\">\n"
      "<title>{}</title>\n{}</svg>\n",
      kWidth, height, kFont, escaped(title), content);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string svg_of(const Chart& chart) {
  check(chart);
  const Legend legend = legend_of(chart, Drawing::left_of(chart), kWidth - kRight);
  const Drawing drawing(chart, {.top = legend.bottom});
  return svg_element(kHeight, chart.caption, legend.svg + drawing.text());
}

std::string svg_of(const Panels& panels) {
  NG_CHECK(!panels.charts.empty(), panels.caption);
  Legend legend = legend_of(panels.charts.front(), kRight, kWidth - kRight);
  legend.bottom += 8;  // air above the first names of panels
  std::string content = legend.svg;
  const Size size{.top = 2 * kLine - 10, .width = kWidth / 2, .height = kPanelHeight};
  double bottom = legend.bottom;
  for (size_t i = 0; i < panels.charts.size(); ++i) {
    const Chart& chart = panels.charts[i];
    check(chart);
    const bool begins_row = i % 2 == 0;
    if (begins_row) bottom += size.height;
    content += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}{}</g>\n",
                           begins_row ? 0 : size.width, bottom - size.height,
                           text_at(Drawing::left_of(chart), kLine, "start", chart.caption),
                           Drawing(chart, size).text());
  }
  return svg_element(bottom, panels.caption, content);
}

}  // namespace ng::chart
