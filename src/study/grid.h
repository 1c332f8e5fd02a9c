// Tables of a study: numbers beside what is expected of them.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "chart/chart.h"

namespace ng::study {

using chart::Chart, chart::Panels, chart::Series;

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Value {
  double found = kNone;     ///< NaN: not part of the study
  double error = kNone;     ///< standard error of `found`; NaN: exact, or not estimated
  double expected = kNone;  ///< the specification's figure or an exact one; NaN: there is none
};

/// (found - expected) / |expected| in percent; NaN where nothing is expected, or zero.
[[nodiscard]] double difference_percent(const Value& value);

using Names = std::vector<std::string>;

/// What items are called: their `name`.
template <class Items>
[[nodiscard]] Names names_of(const Items& items) {
  Names names;
  for (const auto& item : items) names.emplace_back(item.name);
  return names;
}

/// Numbers as a row or a column is named after them.
template <class Numbers>
[[nodiscard]] Names texts_of(const Numbers& numbers, const char* format = "{}") {
  Names texts;
  for (const auto& number : numbers) texts.push_back(fmt::format(fmt::runtime(format), number));
  return texts;
}

/// "a, b, c"
[[nodiscard]] std::string list_of(const Names& names);

/// first, first + 1, ... last
[[nodiscard]] std::vector<int> integers(int first, int last);

/// How a table is shown.
struct GridStyle {
  std::string expected_is = "specification";  ///< where `expected` comes from
  int digits = 4;                             ///< significant ones
  bool shown = true;   ///< false: only in CSV and JSON, e.g. the points of a curve
  bool timed = false;  ///< by the clock: no two runs agree
};

/// Numbers by row and column.
struct Grid : GridStyle {
  std::string name;     ///< in CSV and JSON: "relative_mse"
  std::string caption;  ///< what the numbers are, with their unit
  std::string corner;   ///< what the rows are: "data, block"
  Names rows, columns;
  std::vector<Value> values;  ///< [rows][columns]

  Grid(std::string name_, std::string caption_, std::string corner_, Names rows_, Names columns_,
       GridStyle style = {});
  /// With value_of(row, column), a Value or what was found, at every place.
  template <class ValueOf>
  [[nodiscard]] Grid filled(const ValueOf& value_of) && {
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t c = 0; c < columns.size(); ++c) at(r, c) = Value{value_of(r, c)};
    return std::move(*this);
  }

  [[nodiscard]] Value& at(size_t row, size_t column);
  [[nodiscard]] const Value& at(size_t row, size_t column) const;
  /// By name. They must be there.
  [[nodiscard]] const Value& at(std::string_view row, std::string_view column) const;
  [[nodiscard]] double found(std::string_view row, std::string_view column) const {
    return at(row, column).found;
  }
  [[nodiscard]] bool has_expected() const;
  [[nodiscard]] bool has_errors() const;
  /// "0.01372"; "" for NaN.
  [[nodiscard]] std::string text(double number) const;
};

/// Groups of bars: a group per row, a bar per column, with what is expected as marks.
[[nodiscard]] Chart bars_of(const Grid& grid, std::string y_label);
/// A line per column; `x` has a value per row.
[[nodiscard]] Chart lines_of(const Grid& grid, std::vector<double> x, std::string x_label,
                             std::string y_label);
/// The same where rows are named after numbers: those are x.
[[nodiscard]] Chart lines_of(const Grid& grid, std::string x_label, std::string y_label);
/// x logarithmic, with a tick at each of its values.
void show_each_x(Chart& chart);
/// Without what is expected: that is in the table.
void hide_expected(Chart& chart);

/// A line of a grid as it is shown.
struct ShownRow {
  bool is_found = true;  ///< false: standard errors, the specification's figures or differences
  std::vector<std::string> cells;
};

/// A line per row with what was found, and below it, where the row has them, the standard errors,
/// the specification's figures and the differences in percent.
[[nodiscard]] std::vector<ShownRow> shown_rows(const Grid& grid);

}  // namespace ng::study
