// Tables of a study: numbers beside what is expected of them.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "study/chart.h"

namespace ng::study {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Value {
  double found = kNone;     ///< NaN: not part of the study
  double error = kNone;     ///< standard error of `found`; NaN: exact, or not estimated
  double expected = kNone;  ///< the specification's figure or an exact one; NaN: there is none
};

/// (found - expected) / |expected| in percent; NaN where nothing is expected, or zero.
[[nodiscard]] double difference_percent(const Value& value);

/// Numbers by row and column.
struct Grid {
  std::string name;     ///< in CSV and JSON: "relative_mse"
  std::string caption;  ///< what the numbers are, with their unit
  std::string corner;   ///< what the rows are: "data, block"
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<Value> values;                  ///< [rows][columns]
  std::string expected_is = "specification";  ///< where `expected` comes from
  int digits = 4;                             ///< significant ones, when shown
  bool shown = true;   ///< false: only in CSV and JSON, e.g. the points of a curve
  bool timed = false;  ///< by the clock: no two runs agree

  Grid(std::string name_, std::string caption_, std::string corner_, std::vector<std::string> rows_,
       std::vector<std::string> columns_);

  [[nodiscard]] Value& at(size_t row, size_t column);
  [[nodiscard]] const Value& at(size_t row, size_t column) const;
  /// What was found at a row and column by name. They must be there.
  [[nodiscard]] double found(std::string_view row, std::string_view column) const;
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

/// A line of a grid as it is shown.
struct ShownRow {
  bool is_found = true;  ///< false: standard errors, the specification's figures or differences
  std::vector<std::string> cells;
};

/// A line per row with what was found, and below it, where the row has them, the standard errors,
/// the specification's figures and the differences in percent.
[[nodiscard]] std::vector<ShownRow> shown_rows(const Grid& grid);

}  // namespace ng::study
