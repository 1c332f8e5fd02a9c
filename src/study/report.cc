#include "study/report.h"

#include <fmt/format.h>

#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "base/version.h"

namespace ng::study {
namespace {

constexpr std::string_view kCsvHeading =
    "table,row,column,value,standard_error,expected,difference_percent\n";

struct Paths {
  std::string csv, json, page;
  Paths(const std::string& folder, std::string_view name)
      : csv(join_path(folder, fmt::format("{}.csv", name))),
        json(join_path(folder, fmt::format("{}.json", name))),
        page(join_path(folder, "index.html")) {}
};

// RFC 4180: quoted where it has to be.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

// Nine digits tell any two FP32 numbers apart; sums are in FP64 but no better known.
std::string csv_number(double number) {
  return std::isnan(number) ? "" : fmt::format("{:.9g}", number);
}

Json json_number(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json json_of(const Grid& grid) {
  Json values = Json::array();
  for (size_t r = 0; r < grid.rows.size(); ++r)
    for (size_t c = 0; c < grid.columns.size(); ++c) {
      const Value& value = grid.at(r, c);
      if (std::isnan(value.found)) continue;
      Json record = {
          {"row", grid.rows[r]}, {"column", grid.columns[c]}, {"value", json_number(value.found)}};
      if (!std::isnan(value.error)) record["standard_error"] = json_number(value.error);
      if (!std::isnan(value.expected)) {
        record["expected"] = json_number(value.expected);
        record["difference_percent"] = json_number(difference_percent(value));
      }
      values.push_back(std::move(record));
    }
  return {{"table", grid.name},
          {"caption", grid.caption},
          {"rows_are", grid.corner},
          {"values", std::move(values)}};
}

}  // namespace

std::string csv_of(const Report& report) {
  std::string csv(kCsvHeading);
  for (const Section& section : report.sections)
    for (const Grid& grid : section.grids)
      for (size_t r = 0; r < grid.rows.size(); ++r)
        for (size_t c = 0; c < grid.columns.size(); ++c) {
          const Value& value = grid.at(r, c);
          if (std::isnan(value.found)) continue;
          csv += fmt::format("{},{},{},{},{},{},{}\n", csv_field(grid.name),
                             csv_field(grid.rows[r]), csv_field(grid.columns[c]),
                             csv_number(value.found), csv_number(value.error),
                             csv_number(value.expected), csv_number(difference_percent(value)));
        }
  return csv;
}

std::string json_of(const Report& report, const Origin& origin) {
  Json sections = Json::array();
  for (const Section& section : report.sections) {
    Json tables = Json::array();
    for (const Grid& grid : section.grids) tables.push_back(json_of(grid));
    sections.push_back({{"heading", section.heading},
                        {"text", section.paragraphs},
                        {"tables", std::move(tables)}});
  }
  const Json json = {{"study", report.name},           {"title", report.title},
                     {"command", origin.command},      {"seed", origin.seed},
                     {"version", version()},           {"compiler", compiler()},
                     {"sections", std::move(sections)}};
  return json_text(json, 1) + "\n";
}

void require_own_report(const std::string& folder, std::string_view name) {
  const Paths paths(folder, name);
  require_own_file(paths.csv, kCsvHeading, "a study's");
  require_own_file(paths.json, "{\n \"command\": \"narrowgauge study ", "a study's");
  require_own_file(paths.page, kPageBegin, "a study's");
}

void write_report(const std::string& folder, const Report& report, const Origin& origin) {
  make_folders(folder);
  const Paths paths(folder, report.name);
  write_file_atomically(paths.csv, csv_of(report));
  write_file_atomically(paths.json, json_of(report, origin));
  write_file_atomically(paths.page, page_of(report, origin));
}

}  // namespace ng::study
