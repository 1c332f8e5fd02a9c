#include "study/report.h"

#include <fmt/format.h>

#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
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

// Nine digits tell any two FP32 numbers apart; sums are in FP64 but no better known.
std::string csv_number(double number) {
  return std::isnan(number) ? "" : fmt::format("{:.9g}", number);
}

Json json_number(double number) { return std::isfinite(number) ? Json(number) : Json(); }

/// use(row, column, value) of each number found: the records of CSV and JSON.
template <class Use>
void each_value(const Grid& grid, const Use& use) {
  for (size_t r = 0; r < grid.rows.size(); ++r)
    for (size_t c = 0; c < grid.columns.size(); ++c)
      if (!std::isnan(grid.at(r, c).found)) use(grid.rows[r], grid.columns[c], grid.at(r, c));
}

Json json_of(const Grid& grid) {
  Json values = Json::array();
  each_value(grid, [&](const std::string& row, const std::string& column, const Value& value) {
    Json record = {{"row", row}, {"column", column}, {"value", json_number(value.found)}};
    if (!std::isnan(value.error)) record["standard_error"] = json_number(value.error);
    if (!std::isnan(value.expected)) {
      record["expected"] = json_number(value.expected);
      record["difference_percent"] = json_number(difference_percent(value));
    }
    values.push_back(std::move(record));
  });
  return {{"table", grid.name},
          {"caption", grid.caption},
          {"rows_are", grid.corner},
          {"values", std::move(values)}};
}

// ---------------------------------------------------------------- the page: HTML without anything
// from outside

constexpr const char* kStyle = R"(
body { font: 16px/1.5 Helvetica, Arial, sans-serif; color: #222; max-width: 900px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.6em; line-height: 1.2; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; font-size: 0.82em; margin: 0.4em 0 1.2em; display: block;
  overflow-x: auto; }
caption { text-align: left; padding: 0.3em 0; white-space: nowrap; }
th, td { padding: 0.2em 0.6em; text-align: right; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
thead th { border-bottom: 1.5px solid #333; vertical-align: bottom; }
tr.found td { border-top: 1px solid #ccc; }
tr.also td { color: #666; padding-top: 0; }
figure { margin: 1em 0 1.5em; break-inside: avoid; } figcaption { font-size: 0.9em; }
svg { width: 100%; height: auto; }
footer { margin-top: 3em; border-top: 1px solid #ccc; font-size: 0.85em; color: #555; }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; }
  table { display: table; } }
)";

std::string table_of(const Grid& grid) {
  std::string out = fmt::format("<table>\n<caption>{}</caption>\n<thead><tr><th>{}</th>",
                                chart::escaped(grid.caption), chart::escaped(grid.corner));
  for (const std::string& column : grid.columns)
    out += fmt::format("<th>{}</th>", chart::escaped(column));
  out += "</tr></thead>\n<tbody>\n";
  for (const ShownRow& row : shown_rows(grid)) {
    out += row.is_found ? "<tr class=\"found\">" : "<tr class=\"also\">";
    for (const std::string& cell : row.cells)
      out += fmt::format("<td>{}</td>", chart::escaped(cell));
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

template <class Picture>
std::string figure_of(const Picture& picture) {
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     chart::escaped(picture.caption), svg_of(picture));
}

std::string html_of(const Section& section) {
  std::string out = fmt::format("<h2>{}</h2>\n", chart::escaped(section.heading));
  for (const std::string& paragraph : section.paragraphs)
    out += fmt::format("<p>{}</p>\n", chart::escaped(paragraph));
  for (const Chart& chart : section.charts) out += figure_of(chart);
  for (const Panels& panels : section.panels) out += figure_of(panels);
  for (const Grid& grid : section.grids)
    if (grid.shown) out += table_of(grid);
  return out;
}

}  // namespace

std::string csv_of(const Report& report) {
  std::string csv(kCsvHeading);
  for (const Section& section : report.sections)
    for (const Grid& grid : section.grids)
      each_value(grid, [&](const std::string& row, const std::string& column, const Value& value) {
        csv += fmt::format("{},{},{},{},{},{},{}\n", csv_field(grid.name), csv_field(row),
                           csv_field(column), csv_number(value.found), csv_number(value.error),
                           csv_number(value.expected), csv_number(difference_percent(value)));
      });
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
  Json json = {{"study", report.name},           {"title", report.title},
               {"command", origin.command},      {"seed", origin.seed},
               {"version", version()},           {"compiler", compiler()},
               {"sections", std::move(sections)}};
  for (const PhaseOfRecipe& of : report.phases)
    json["phase"].push_back({{"recipe", of.recipe},
                             {"step", of.step},
                             {"phase", of.phase.index},
                             {"phases", of.phase.count},
                             {"words", of.phase.text()}});
  return json_text(json, 1) + "\n";
}

std::string page_of(const Report& report, const Origin& origin) {
  std::string page =
      fmt::format("{3}{0}: {1}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>{1}</h1>\n",
                  chart::escaped(report.name), chart::escaped(report.title), kStyle, kPageBegin);
  for (const Section& section : report.sections) page += html_of(section);
  page += fmt::format(
      "<footer><p>Made by <code>{0}</code>, seed {1}, NarrowGauge {2} ({4}). The numbers, with "
      "those "
      "of the curves, are in <a href=\"{3}.csv\">{3}.csv</a> and <a href=\"{3}.json\">{3}.json</a> "
      "beside this page.</p></footer>\n</body>\n</html>\n",
      chart::escaped(origin.command), origin.seed, version(), report.name, compiler());
  return page;
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
