// Parts of pictures: places of numbers on an axis, ticks, marks and lines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chart/chart.h"

namespace ng::chart {

inline constexpr double kFont = 13;
inline constexpr double kLine = 18;       ///< from one line of text to the next
inline constexpr double kSwatch = 22;     ///< of the legend
inline constexpr size_t kMostMarks = 40;  ///< a line with more points is drawn without marks

/// How a series looks.
struct Look {
  const char* colour;
  const char* dash;
};
/// Of series `number`, those that are no reference counted.
[[nodiscard]] const Look& look_of(size_t number);
inline constexpr const char* kReferenceColour = "#888888";

/// About how wide a text is drawn.
[[nodiscard]] double text_width(std::string_view text);
[[nodiscard]] std::string text_at(double x, double y, const char* anchor, std::string_view text);
[[nodiscard]] std::string line_of(double x1, double y1, double x2, double y2,
                                  std::string_view style);
/// A mark of its own for each series, in black and white too.
[[nodiscard]] std::string mark(size_t series, double x, double y);
[[nodiscard]] std::string line_style(const Series& series, size_t number);

/// An interval of values and where it is drawn.
struct Axis {
  double low = 0, high = 1;
  double begin = 0, end = 1;
  bool logarithmic = false;

  [[nodiscard]] double at(double value) const;
  /// Finite, and above 0 where the axis is logarithmic.
  [[nodiscard]] bool has_place(double value) const;
  /// It has a place that is not beyond the ends.
  [[nodiscard]] bool holds(double value) const;
};

/// What a chart's values span, with some room.
[[nodiscard]] Axis y_range(const Chart& chart);

/// Ticks of an axis: round numbers, or powers of ten.
[[nodiscard]] std::vector<double> ticks_of(const Axis& axis, int most);
/// The same, or 1, 2 and 5 times powers of ten.
[[nodiscard]] std::vector<double> places_of(const Axis& axis, int most);
/// Enough digits that neighbours differ; powers of ten as "1e-3".
[[nodiscard]] std::vector<std::string> tick_texts(std::span<const double> ticks, bool logarithmic);

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};
/// Where a line of text beside a point covers none of `taken` between left and right; right of the
/// point else.
[[nodiscard]] Box free_box(std::span<const Box> taken, const Box& point, double width, double left,
                           double right);

/// A legend above a picture: names with their marks, in rows.
struct Legend {
  std::string svg;
  double bottom = 0;
};
[[nodiscard]] Legend legend_of(const Chart& chart, double left, double right);

}  // namespace ng::chart
