#include "study/grid.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace ng::study {
namespace {

size_t place_of(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  NG_CHECK(found != names.end(), name);
  return static_cast<size_t>(found - names.begin());
}

// The columns of a grid as series of a chart.
std::vector<Series> series_of(const Grid& grid) {
  std::vector<Series> all;
  for (size_t c = 0; c < grid.columns.size(); ++c) {
    Series series{.name = grid.columns[c]};
    for (size_t r = 0; r < grid.rows.size(); ++r) {
      const Value& value = grid.at(r, c);
      series.y.push_back(value.found);
      if (grid.has_errors()) series.error.push_back(value.error);
      if (grid.has_expected()) series.expected.push_back(value.expected);
    }
    all.push_back(std::move(series));
  }
  return all;
}

// One line: a name, then a text for each column that has one.
template <class TextOf>
ShownRow shown_row(const Grid& grid, size_t row, std::string head, bool is_found,
                   const TextOf& text_of) {
  ShownRow shown{.is_found = is_found, .cells = {std::move(head)}};
  for (size_t c = 0; c < grid.columns.size(); ++c) shown.cells.push_back(text_of(grid.at(row, c)));
  return shown;
}

bool row_has(const Grid& grid, size_t row, double Value::*part) {
  for (size_t c = 0; c < grid.columns.size(); ++c)
    if (!std::isnan(grid.at(row, c).*part)) return true;
  return false;
}

}  // namespace

double difference_percent(const Value& value) {
  if (value.expected == 0) return kNone;
  return 100 * (value.found - value.expected) / std::abs(value.expected);
}

std::string list_of(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

std::vector<int> integers(int first, int last) {
  std::vector<int> all(static_cast<size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

Grid::Grid(std::string name_, std::string caption_, std::string corner_, Names rows_,
           Names columns_, GridStyle style)
    : GridStyle(std::move(style)),
      name(std::move(name_)),
      caption(std::move(caption_)),
      corner(std::move(corner_)),
      rows(std::move(rows_)),
      columns(std::move(columns_)),
      values(rows.size() * columns.size()) {}

Value& Grid::at(size_t row, size_t column) {
  NG_CHECK(row < rows.size() && column < columns.size(), row, column);
  return values[row * columns.size() + column];
}

const Value& Grid::at(size_t row, size_t column) const {
  NG_CHECK(row < rows.size() && column < columns.size(), row, column);
  return values[row * columns.size() + column];
}

const Value& Grid::at(std::string_view row, std::string_view column) const {
  return at(place_of(rows, row), place_of(columns, column));
}

bool Grid::has_expected() const {
  return std::any_of(values.begin(), values.end(),
                     [](const Value& value) { return !std::isnan(value.expected); });
}

bool Grid::has_errors() const {
  return std::any_of(values.begin(), values.end(),
                     [](const Value& value) { return !std::isnan(value.error); });
}

std::string Grid::text(double number) const {
  return std::isnan(number) ? "" : fmt::format("{:#.{}g}", number, digits);
}

Chart bars_of(const Grid& grid, std::string y_label) {
  return {.kind = Chart::Kind::bars,
          .caption = grid.caption,
          .x_label = grid.corner,
          .y_label = std::move(y_label),
          .categories = grid.rows,
          .expected_name = grid.has_expected() ? grid.expected_is : "",
          .series = series_of(grid)};
}

Chart lines_of(const Grid& grid, std::vector<double> x, std::string x_label, std::string y_label) {
  NG_CHECK(x.size() == grid.rows.size(), x.size(), grid.rows.size());
  return {.kind = Chart::Kind::lines,
          .caption = grid.caption,
          .x_label = std::move(x_label),
          .y_label = std::move(y_label),
          .x = std::move(x),
          .expected_name = grid.has_expected() ? grid.expected_is : "",
          .series = series_of(grid)};
}

Chart lines_of(const Grid& grid, std::string x_label, std::string y_label) {
  std::vector<double> x;
  for (const std::string& row : grid.rows) x.push_back(std::strtod(row.c_str(), nullptr));
  return lines_of(grid, std::move(x), std::move(x_label), std::move(y_label));
}

void show_each_x(Chart& chart) {
  chart.log_x = true;
  chart.x_ticks = chart.x;
}

void hide_expected(Chart& chart) {
  chart.expected_name.clear();
  for (Series& series : chart.series) series.expected.clear();
}

std::vector<ShownRow> shown_rows(const Grid& grid) {
  std::vector<ShownRow> rows;
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    rows.push_back(shown_row(grid, r, grid.rows[r], true,
                             [&](const Value& value) { return grid.text(value.found); }));
    if (row_has(grid, r, &Value::error))
      rows.push_back(shown_row(grid, r, "  ± standard error", false, [](const Value& value) {
        return std::isnan(value.error) ? "" : fmt::format("{:.1g}", value.error);
      }));
    if (!row_has(grid, r, &Value::expected)) continue;
    rows.push_back(shown_row(grid, r, "  " + grid.expected_is, false,
                             [&](const Value& value) { return grid.text(value.expected); }));
    rows.push_back(shown_row(grid, r, "  difference, %", false, [](const Value& value) {
      const double percent = difference_percent(value);
      return std::isnan(percent) ? "" : fmt::format("{:+.2f}", percent);
    }));
  }
  return rows;
}

}  // namespace ng::study
