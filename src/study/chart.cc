#include "study/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/error.h"

namespace ng::study {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 380;
constexpr double kFont = 13;
constexpr double kLine = 18;       // from one line of text to the next
constexpr double kRight = 16;      // margin
constexpr double kBottom = 52;     // tick labels and the axis' name
constexpr double kTilt = 35;       // degrees, of group names that do not fit side by side
constexpr double kSwatch = 22;     // of the legend
constexpr size_t kMostMarks = 40;  // a line with more points is drawn without marks

/// How a series looks. Colours of Okabe and Ito, "Color Universal Design" (2008), without the
/// yellow, which white paper swallows; black last.
struct Look {
  const char* colour;
  const char* dash;
};
constexpr Look kLooks[] = {
    {"#0072B2", ""},     {"#E69F00", "7 3"}, {"#009E73", "2 3"},     {"#D55E00", "9 3 2 3"},
    {"#56B4E9", "12 3"}, {"#CC79A7", "4 2"}, {"#555555", "2 2 6 2"}, {"#000000", "1 4"},
};
constexpr const char* kReferenceColour = "#888888";

/// About how wide a text is drawn: sans-serif letters are 0.55 of their size on average.
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

// ---------------------------------------------------------------- numbers to places

/// An interval of values and where it is drawn.
struct Axis {
  double low = 0, high = 1;
  double begin = 0, end = 1;
  bool logarithmic = false;

  [[nodiscard]] double at(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
};

/// Widens [low, high] so that it holds `value`; NaN is nowhere.
void include(Axis& axis, double value) {
  if (!std::isfinite(value)) return;
  axis.low = std::min(axis.low, value);
  axis.high = std::max(axis.high, value);
}

Axis y_range(const Chart& chart) {
  Axis axis{.low = HUGE_VAL, .high = -HUGE_VAL};
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      const double error =
          i < series.error.size() && std::isfinite(series.error[i]) ? series.error[i] : 0;
      include(axis, series.y[i] - error);
      include(axis, series.y[i] + error);
    }
    for (const double value : series.expected) include(axis, value);
  }
  NG_CHECK(axis.low <= axis.high, chart.caption);
  const double room = 0.06 * (axis.high - axis.low);
  const bool zero = chart.kind == Chart::Kind::bars || chart.from_zero;
  const double low = zero ? std::min(axis.low, 0.0) : axis.low;
  const double high = zero ? std::max(axis.high, 0.0) : axis.high;
  axis.low = low < 0 || !zero ? low - room : low;
  axis.high = high > 0 || !zero ? high + room : high;
  if (axis.low == axis.high) axis.high += 1;
  return axis;
}

/// Enough digits that neighbours differ.
std::vector<std::string> tick_texts(std::span<const double> ticks) {
  double step = HUGE_VAL;
  for (size_t i = 1; i < ticks.size(); ++i) step = std::min(step, ticks[i] - ticks[i - 1]);
  int decimals = 0;
  for (double rest = step; decimals < 12 && std::abs(rest - std::round(rest)) > 1e-6 * step;
       rest *= 10)
    ++decimals;
  const bool tiny = decimals > 6;
  std::vector<std::string> texts;
  for (const double tick : ticks) {
    const double value = std::abs(tick) < 1e-9 * step ? 0 : tick;  // never "-0"
    texts.push_back(tiny ? fmt::format("{:.3g}", value) : fmt::format("{:.{}f}", value, decimals));
  }
  return texts;
}

// ---------------------------------------------------------------- the parts of a picture

/// A mark of its own for each series, in black and white too.
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
  const Look& look = kLooks[number % std::size(kLooks)];
  const std::string dash =
      *look.dash != 0 ? fmt::format(" stroke-dasharray=\"{}\"", look.dash) : "";
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", look.colour, dash);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart), y_(y_range(chart)) {
    y_ticks_ = round_ticks(y_.low, y_.high, 7);
    double left = 0;
    for (const std::string& text : tick_texts(y_ticks_)) left = std::max(left, text_width(text));
    left += 34;  // the axis' name, and air
    const std::string legend = legend_of(left);
    const double widest = widest_category();
    const double group = (kWidth - kRight - left) / static_cast<double>(chart.categories.size());
    tilted_ = chart.kind == Chart::Kind::bars && widest > 0.95 * group;
    y_.begin = kHeight - kBottom - (tilted_ ? 0.57 * widest - 6 : 0);  // sin(35°)
    y_.end = legend_bottom_ + 10;
    x_ = {.low = 0,
          .high = static_cast<double>(chart.categories.size()),
          .begin = left,
          .end = kWidth - kRight};
    if (chart.kind == Chart::Kind::lines) {
      x_.low = chart.x.front();
      x_.high = chart.x.back();
      x_.logarithmic = chart.log_x;
    }
    svg_ = legend + frame() + (chart.kind == Chart::Kind::bars ? bars() : lines());
  }

  [[nodiscard]] std::string text() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
        "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{:.0f}\" fill=\"#222\">\n"
        "<title>{}</title>\n{}</svg>\n",
        kWidth, kHeight, kFont, escaped(chart_.caption), svg_);
  }

 private:
  /// Rows of names with their marks, above the picture.
  std::string legend_of(double left) {
    double x = left;
    double y = kLine;
    std::string out;
    const auto entry = [&](std::string_view name, const std::string& picture_of_series) {
      const double width = kSwatch + 8 + text_width(name) + 20;
      if (x > left && x + width > kWidth - kRight) x = left, y += kLine;
      out += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">{}</g>\n", x, y,
                         picture_of_series) +
             text_at(x + kSwatch + 6, y, "start", name);
      x += width;
    };
    size_t number = 0;
    for (const Series& series : chart_.series) {
      entry(series.name, swatch(series, number));
      number += series.reference ? 0 : 1;
    }
    if (!chart_.expected_name.empty())
      entry(chart_.expected_name,
            line_of(4, -4.5, kSwatch - 4, -4.5, "stroke=\"#000\" stroke-width=\"2.5\""));
    legend_bottom_ = y;
    return out;
  }

  [[nodiscard]] std::string swatch(const Series& series, size_t number) const {
    const char* colour =
        series.reference ? kReferenceColour : kLooks[number % std::size(kLooks)].colour;
    if (chart_.kind == Chart::Kind::bars)
      return fmt::format(
          "<rect x=\"4\" y=\"-11\" width=\"13\" height=\"13\" fill=\"{}\" stroke=\"#333\" "
          "stroke-width=\"0.6\"/>",
          colour);
    std::string picture = line_of(0, -4.5, kSwatch, -4.5, line_style(series, number));
    if (!series.reference && chart_.x.size() <= kMostMarks)
      picture += fmt::format("<g fill=\"{}\">{}</g>", colour, mark(number, kSwatch / 2, -4.5));
    return picture;
  }

  [[nodiscard]] double widest_category() const {
    double widest = 0;
    for (const std::string& name : chart_.categories) widest = std::max(widest, text_width(name));
    return widest;
  }

  /// Axes, grid lines, ticks and names.
  [[nodiscard]] std::string frame() const {
    std::string out;
    const std::vector<std::string> texts = tick_texts(y_ticks_);
    for (size_t i = 0; i < y_ticks_.size(); ++i) {
      const double y = y_.at(y_ticks_[i]);
      out += line_of(x_.begin, y, x_.end, y, "stroke=\"#ddd\"") +
             text_at(x_.begin - 7, y + 4.5, "end", texts[i]);
    }
    const double zero = y_.at(std::clamp(0.0, y_.low, y_.high));
    out += line_of(x_.begin, zero, x_.end, zero, "stroke=\"#333\"") +
           line_of(x_.begin, y_.begin, x_.begin, y_.end, "stroke=\"#333\"");
    out += chart_.kind == Chart::Kind::bars ? categories() : x_ticks();
    out += text_at((x_.begin + x_.end) / 2, kHeight - 8, "middle", chart_.x_label);
    const double middle = (y_.begin + y_.end) / 2;
    return out + fmt::format(
                     "<text transform=\"translate(15 {:.1f}) rotate(-90)\" "
                     "text-anchor=\"middle\">{}</text>\n",
                     middle, escaped(chart_.y_label));
  }

  [[nodiscard]] std::string x_ticks() const {
    const std::vector<double> ticks =
        chart_.x_ticks.empty() ? round_ticks(x_.low, x_.high, 10) : chart_.x_ticks;
    const std::vector<std::string> texts = tick_texts(ticks);
    std::string out;
    for (size_t i = 0; i < ticks.size(); ++i) {
      const double x = x_.at(ticks[i]);
      out += line_of(x, y_.begin, x, y_.begin + 5, "stroke=\"#333\"") +
             text_at(x, y_.begin + 19, "middle", texts[i]);
    }
    return out;
  }

  [[nodiscard]] std::string categories() const {
    std::string out;
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      const double x = x_.at(static_cast<double>(i) + 0.5);
      if (tilted_)
        out += fmt::format("<g transform=\"translate({:.1f} {:.1f}) rotate(-{:.0f})\">{}</g>\n",
                           x + 4, y_.begin + 15, kTilt, text_at(0, 0, "end", chart_.categories[i]));
      else
        out += text_at(x, y_.begin + 19, "middle", chart_.categories[i]);
    }
    return out;
  }

  [[nodiscard]] std::string error_bar(const Series& series, size_t i, double x) const {
    if (i >= series.error.size() || !std::isfinite(series.error[i])) return "";
    const double top = y_.at(series.y[i] + series.error[i]);
    const double bottom = y_.at(series.y[i] - series.error[i]);
    constexpr const char* kStyle = "stroke=\"#000\" stroke-width=\"1\"";
    return line_of(x, top, x, bottom, kStyle) + line_of(x - 3, top, x + 3, top, kStyle) +
           line_of(x - 3, bottom, x + 3, bottom, kStyle);
  }

  [[nodiscard]] std::string expected_mark(const Series& series, size_t i, double x,
                                          double half) const {
    if (i >= series.expected.size() || !std::isfinite(series.expected[i])) return "";
    const double y = y_.at(series.expected[i]);
    return line_of(x - half, y, x + half, y, "stroke=\"#000\" stroke-width=\"2\"");
  }

  [[nodiscard]] std::string bars() const {
    std::string out;
    const double group = x_.at(1) - x_.at(0);
    const double width = std::min(0.82 * group / static_cast<double>(chart_.series.size()), 60.0);
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const Series& series = chart_.series[s];
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!std::isfinite(series.y[i])) continue;
        const double centre =
            x_.at(static_cast<double>(i) + 0.5) +
            (static_cast<double>(s) + 0.5 - 0.5 * static_cast<double>(chart_.series.size())) *
                width;
        const double from = y_.at(std::max(series.y[i], 0.0));
        const double to = y_.at(std::min(series.y[i], 0.0));
        out += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
            "fill=\"{}\" stroke=\"#333\" stroke-width=\"0.6\"/>\n",
            centre - 0.46 * width, from, 0.92 * width, to - from,
            kLooks[s % std::size(kLooks)].colour);
        out += error_bar(series, i, centre) + expected_mark(series, i, centre, 0.46 * width);
      }
    }
    return out;
  }

  [[nodiscard]] std::string lines() const {
    std::string out;
    size_t number = 0;
    for (const Series& series : chart_.series) {
      std::string points;  // one path, its gaps moves
      std::string marks;
      bool pen_down = false;
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!std::isfinite(series.y[i])) {
          pen_down = false;
          continue;
        }
        const double x = x_.at(chart_.x[i]);
        const double y = y_.at(series.y[i]);
        points += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x, y);
        pen_down = true;
        if (!series.reference && chart_.x.size() <= kMostMarks) marks += mark(number, x, y);
        marks += error_bar(series, i, x) + expected_mark(series, i, x, 7);
      }
      out += fmt::format("<path d=\"{}\" {}/>\n", points, line_style(series, number));
      out +=
          fmt::format("<g fill=\"{}\">{}</g>\n", kLooks[number % std::size(kLooks)].colour, marks);
      number += series.reference ? 0 : 1;
    }
    return out;
  }

  const Chart& chart_;
  Axis x_, y_;
  std::vector<double> y_ticks_;
  double legend_bottom_ = 0;
  bool tilted_ = false;  // group names
  std::string svg_;
};

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

std::string svg_of(const Chart& chart) {
  NG_CHECK(!chart.series.empty() &&
               (chart.kind == Chart::Kind::bars ? !chart.categories.empty() : chart.x.size() >= 2),
           chart.caption);
  return Drawing(chart).text();
}

}  // namespace ng::study
