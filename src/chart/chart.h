// Pictures as SVG text: grouped bars, points and lines with axes, ticks and a legend. Colours can
// be told apart by colour-blind readers; marks and dashes tell the series apart in black and white.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ng::chart {

struct Series {
  std::string name;
  std::vector<double> y = {};               ///< by category or x; NaN leaves a gap
  std::vector<double> error = {};           ///< half lengths of error bars, or empty
  std::vector<double> expected = {};        ///< drawn as a small mark at the same place, or empty
  std::vector<double> low = {}, high = {};  ///< lines: a band around y, or empty
  bool reference = false;                   ///< something to compare with: a thin grey line
  bool no_line = false;                     ///< lines: its marks alone
  bool joined = false;                      ///< lines: gaps do not break it
};

struct Chart {
  enum class Kind : uint8_t { bars, points, lines };
  Kind kind = Kind::lines;
  std::string caption = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<std::string> categories = {};  ///< bars, points: the groups
  std::vector<double> x = {};                ///< lines: ascending, the same for all series
  std::vector<double> x_ticks = {};          ///< lines: where; empty: round numbers
  std::vector<std::string> labels = {};      ///< lines: beside the marks at x, or empty
  bool log_x = false;                        ///< lines: logarithmic x, all x > 0
  bool from_zero = true;                     ///< y begins at 0 where no value is negative
  bool log_y = false;                        ///< lines: logarithmic y; what is not above 0: a gap
  /// Limits of y instead of those of the values; what lies beyond is a gap.
  double y_low = std::numeric_limits<double>::quiet_NaN();
  double y_high = std::numeric_limits<double>::quiet_NaN();
  double strip = 0;                 ///< a grey strip from -strip to strip: what counts as 0
  std::string expected_name = {};   ///< legend of the `expected` marks
  std::vector<Series> series = {};  ///< at most eight that are no reference
};

/// Its values stand in groups with names.
[[nodiscard]] inline bool has_groups(const Chart& chart) {
  return chart.kind != Chart::Kind::lines;
}

/// Charts beside each other, two to a row, each with its caption, under the legend of the first.
struct Panels {
  std::string caption;
  std::vector<Chart> charts;  ///< of the same series
};

/// A complete <svg> element. Uses nothing from outside.
[[nodiscard]] std::string svg_of(const Chart& chart);
[[nodiscard]] std::string svg_of(const Panels& panels);

/// Text as HTML and SVG content.
[[nodiscard]] std::string escaped(std::string_view text);

/// Round numbers within [low, high], 1, 2 or 5 · 10^n apart: `most` of them at most, two or more.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, int most);

}  // namespace ng::chart
