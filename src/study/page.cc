// A report as one page of HTML: pictures inside it, nothing from outside.
#include <fmt/format.h>

#include "base/version.h"
#include "study/report.h"

namespace ng::study {
namespace {

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
                                escaped(grid.caption), escaped(grid.corner));
  for (const std::string& column : grid.columns) out += fmt::format("<th>{}</th>", escaped(column));
  out += "</tr></thead>\n<tbody>\n";
  for (const ShownRow& row : shown_rows(grid)) {
    out += row.is_found ? "<tr class=\"found\">" : "<tr class=\"also\">";
    for (const std::string& cell : row.cells) out += fmt::format("<td>{}</td>", escaped(cell));
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

template <class Picture>
std::string figure_of(const Picture& picture) {
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     escaped(picture.caption), svg_of(picture));
}

std::string section_of(const Section& section) {
  std::string out = fmt::format("<h2>{}</h2>\n", escaped(section.heading));
  for (const std::string& paragraph : section.paragraphs)
    out += fmt::format("<p>{}</p>\n", escaped(paragraph));
  for (const Chart& chart : section.charts) out += figure_of(chart);
  for (const Panels& panels : section.panels) out += figure_of(panels);
  for (const Grid& grid : section.grids)
    if (grid.shown) out += table_of(grid);
  return out;
}

}  // namespace

std::string page_of(const Report& report, const Origin& origin) {
  std::string page =
      fmt::format("{3}{0}: {1}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>{1}</h1>\n",
                  escaped(report.name), escaped(report.title), kStyle, kPageBegin);
  for (const Section& section : report.sections) page += section_of(section);
  page += fmt::format(
      "<footer><p>Made by <code>{0}</code>, seed {1}, NarrowGauge {2} ({4}). The numbers, with "
      "those "
      "of the curves, are in <a href=\"{3}.csv\">{3}.csv</a> and <a href=\"{3}.json\">{3}.json</a> "
      "beside this page.</p></footer>\n</body>\n</html>\n",
      escaped(origin.command), origin.seed, version(), report.name, compiler());
  return page;
}

}  // namespace ng::study
