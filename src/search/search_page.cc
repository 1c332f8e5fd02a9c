#include "search/search_page.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "base/text.h"
#include "base/units.h"
#include "recipe/recipe.h"

namespace ng::search {
namespace {

report::Section section_of(const std::string& heading, const CompareCells& cells) {
  report::Section section{.heading = heading};
  section.table.heading = cells.heading;
  for (const std::vector<std::string>& row : cells.rows) {
    section.table.rows.emplace_back();
    for (const std::string& text : row) section.table.rows.back().push_back({on_one_line(text)});
  }
  return section;
}

std::string lines_of(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

report::Section decision_section(const SearchReport& report) {
  report::Section section = section_of("What became of the candidates", fate_cells(report));
  const Decisions decisions = decisions_of(report);
  if (!decisions.decided.empty())
    section.listings.push_back({"Decided", lines_of(decisions.decided)});
  if (!decisions.open.empty())
    section.listings.push_back({"Not decided", lines_of(decisions.open)});
  return section;
}

report::Section rung_section(const RungOutcome& outcome, size_t number) {
  report::Section section =
      section_of(fmt::format("Rung {}: {}, {}", number, counted(outcome.rung.steps, "step"),
                             counted(outcome.rung.seeds, "seed")),
                 loss_cells(outcome.to_base));
  section.table.heading.emplace_back("runs");
  for (std::vector<report::Cell>& row : section.table.rows)
    row.push_back({"report", fmt::format("rung-{}/report.html", number)});
  section.note = outcome.kept.empty() ? "All candidates diverged."
                                      : fmt::format("Stay: {}.", fmt::join(outcome.kept, ", "));
  return section;
}

report::Section recipe_section(const SearchReport& report) {
  report::Section section{.heading = "Recipes"};
  section.listings.push_back({"What the figures are", lines_of(search_sentences(report))});
  for (const ReportedRecipe& one : report.candidates)
    section.listings.push_back({fmt::format("{}, {}, resolved", one.label, one.recipe),
                                Recipe::load(one.recipe).resolved_toml()});
  return section;
}

}  // namespace

report::Page search_page(const SearchReport& report) {
  report::Page page;
  const std::string name = std::filesystem::path(report.run).stem().string();
  page.title = fmt::format("Recipes searched on {}", on_one_line(name));
  page.subtitle = fmt::format("{} of {} are finished", report.rungs.size(),
                              counted(std::ssize(report.plan), "rung"));
  page.facts = {{"run", on_one_line(report.run)},
                {"base", report.base.label},
                {"candidates", std::to_string(report.candidates.size())}};
  page.sections.push_back(decision_section(report));
  for (size_t r = report.rungs.size(); r-- > 0;)
    page.sections.push_back(rung_section(report.rungs[r], r + 1));
  page.sections.push_back(section_of("Gradients", gradient_cells(report)));
  page.sections.push_back(section_of("Candidates and their bits", candidate_cells(report)));
  page.sections.push_back(recipe_section(report));
  return page;
}

}  // namespace ng::search
