#include "cli/runs/search_files.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/runs/compare_files.h"
#include "search/search_page.h"
#include "train/run_files.h"
#include "train/run_keys.h"

namespace ng::cli {
namespace {

constexpr std::string_view kSearchPage = "report.html";
constexpr std::string_view kSearchCsv = "search.csv";
constexpr std::string_view kSearchJson = "search.json";
constexpr std::string_view kSearchMarkdown = "search.md";
constexpr std::string_view kScoresFile = "gradients.json";
constexpr std::string_view kSearchTitle = "# Recipes searched on ";
constexpr size_t kMostSearchBytes = size_t{1} << 28;

std::string path_of(const SearchSetup& setup, std::string_view name) {
  return join_path(setup.args.folder(), name);
}

/// The flags that change what a search finds, and the recipes by what they say.
Json flags_json(const SearchSetup& setup) {
  const SearchArgs& args = setup.args;
  Json json = {{"--base", args.base},
               {"--grid", args.grid},
               {"--recipes", args.recipes},
               {"--keep", setup.report.plan.front().candidates},
               {"--steps", setup.report.plan.front().steps},
               {"--seeds", args.seeds},
               {"--draws", args.draws},
               {"--by", args.by},
               {"--skip-invalid", args.skips_invalid}};
  json["recipe " + setup.report.base.label] = setup.report.base.hash;
  for (const search::ReportedRecipe& one : setup.report.candidates)
    json["recipe " + one.label] = one.hash;
  return json;
}

[[noreturn]] void refuse_other(const std::string& path, const std::string& key,
                               const std::string& before, const std::string& now) {
  throw Error({.place = path,
               .key = key,
               .problem = fmt::format("its search has {}, this one {}", before, now),
               .remedy = "another --out"});
}

void require_same_search(const SearchSetup& setup, const std::string& path) {
  if (!is_file(path) || file_size(path) == 0) return;
  const Json before = read_json_file(path, kMostSearchBytes);
  const Json flags = before.value("flags", Json::object());
  const Json now = flags_json(setup);
  for (const auto& [key, value] : now.items())
    if (const Json old = flags.value(key, Json()); old != value)
      refuse_other(path, key, brief(old), brief(value));
  PrintedSettings settings;
  const Json said = before.value("settings", Json::object());
  for (const auto& [key, value] : said.items())
    if (value.is_string()) settings[key] = value.get<std::string>();
  for (const auto& [key, old, value] : differing_settings(settings, setup.config))
    refuse_other(path, key, old, value);
}

std::string list_text(const std::string& heading, const std::vector<std::string>& lines,
                      std::string_view before) {
  if (lines.empty()) return "";
  std::string text = heading + "\n";
  for (const std::string& line : lines) text += fmt::format("{}{}\n", before, line);
  return text + "\n";
}

/// Each table of the report below its heading, by `show`.
template <class Show>
std::string tables_text(const search::SearchReport& report, std::string_view before,
                        const Show& show) {
  std::string text;
  const auto add = [&](const std::string& heading, const CompareCells& cells) {
    if (!cells.rows.empty())
      text += fmt::format("{}{}\n\n{}\n", before, heading, show(table_of_cells(cells)));
  };
  add("What became of the candidates", search::fate_cells(report));
  for (size_t r = report.rungs.size(); r-- > 0;)
    add(fmt::format("Rung {}", r + 1), loss_cells(report.rungs[r].to_base));
  add("Gradients", search::gradient_cells(report));
  add("Candidates and their bits", search::candidate_cells(report));
  return text;
}

std::string markdown_of(const search::SearchReport& report) {
  const std::string name = std::filesystem::path(report.run).stem().string();
  const search::Decisions decisions = search::decisions_of(report);
  return fmt::format("{}{}\n\n", kSearchTitle, on_one_line(name)) +
         list_text("Decided:\n", decisions.decided, "- ") +
         list_text("Not decided:\n", decisions.open, "- ") +
         tables_text(report, "## ", [](const Table& table) { return table.markdown(); }) +
         list_text("## What the figures are\n", search::search_sentences(report), "- ");
}

}  // namespace

void require_own_search(const SearchSetup& setup) {
  const std::string page = path_of(setup, kSearchPage), csv = path_of(setup, kSearchCsv);
  const std::string json = path_of(setup, kSearchJson), markdown = path_of(setup, kSearchMarkdown);
  const std::string scores = path_of(setup, kScoresFile);
  // Known before steps are measured, not when files are written.
  if (is_file(setup.args.folder()))
    throw Error({.place = setup.args.folder(),
                 .key = "",
                 .problem = "is a file, not a folder for a search",
                 .remedy = "another --out"});
  require_own_file(page, report::html_begin(), "a search's");
  require_own_file(csv, "label,recipe,changes", "a search's");
  require_own_file(json, "{\n  \"base\": {", "a search's");
  require_own_file(markdown, kSearchTitle, "a search's");
  require_own_file(scores, "{\n  \"scores\": {", "a search's");
  require_not_read(setup.config, std::vector{page, csv, json, markdown, scores});
  require_same_search(setup, json);
  search::require_own_recipes(setup.candidates);
}

Json json_of(const SearchSetup& setup, const search::SearchReport& report) {
  Json json = search::search_json(report);
  json["flags"] = flags_json(setup);
  json["settings"] = Json::object();
  for (const auto& key : run_keys())
    if (key.path != "recipe") json["settings"][key.path] = key.print(setup.config);
  return json;
}

void write_search_files(const SearchSetup& setup, const search::SearchReport& report) {
  write_file_atomically(path_of(setup, kSearchJson), json_text(json_of(setup, report), 2) + "\n");
  write_file_atomically(path_of(setup, kSearchCsv), search::search_csv(report));
  write_file_atomically(path_of(setup, kSearchMarkdown), markdown_of(report));
  write_file_atomically(path_of(setup, kSearchPage), report::html_of(search::search_page(report)));
}

std::string search_text(const search::SearchReport& report) {
  const search::Decisions decisions = search::decisions_of(report);
  std::string text = tables_text(report, "", [](const Table& table) { return table.text(); });
  for (const std::string& sentence : search::search_sentences(report)) text += in_lines(sentence);
  text += '\n';
  text += list_text("Decided:", decisions.decided, "  ");
  return text + list_text("Not decided:", decisions.open, "  ");
}

std::string search_files_text(const SearchSetup& setup) {
  std::string text;
  for (const std::string_view name : {kSearchPage, kSearchCsv, kSearchJson, kSearchMarkdown})
    text += on_one_line(path_of(setup, name)) + "\n";
  return text;
}

Scores read_scores(const SearchSetup& setup) {
  Scores scores;
  const std::string path = path_of(setup, kScoresFile);
  if (!is_file(path)) return scores;
  const Json json = read_json_file(path, kMostSearchBytes);
  const JsonObject all = JsonObject(json, path).object("scores");
  constexpr double kMost = 1e300, kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [label, value] : all.value().items()) {
    const JsonObject score(value, path, label);
    scores[label] = {.bias = score.number_or("bias", 0, kMost, kNan),
                     .noise = score.number_or("noise", 0, kMost, kNan),
                     .loss = score.number_or("loss", -kMost, kMost, kNan)};
  }
  return scores;
}

void write_scores(const SearchSetup& setup, const Scores& scores) {
  Json json = {{"scores", Json::object()}};
  for (const auto& [label, score] : scores)
    json["scores"][label] = {{"bias", score.bias}, {"noise", score.noise}, {"loss", score.loss}};
  write_file_atomically(path_of(setup, kScoresFile), json_text(json, 2) + "\n");
}

}  // namespace ng::cli
