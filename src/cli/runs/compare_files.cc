#include "cli/runs/compare_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/output.h"
#include "compare/compare_table.h"
#include "io/model_files.h"
#include "model/weights.h"
#include "recipe/matches.h"
#include "recipe/phase_choice.h"
#include "report/recipe_text.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

constexpr std::string_view kPageFile = "report.html";
constexpr std::string_view kCsvFile = "compare.csv";
constexpr std::string_view kJsonFile = "compare.json";
constexpr std::string_view kMarkdownFile = "compare.md";
constexpr std::string_view kMemorySentence =
    "From weights to all memory: planned bytes for each parameter of the model. Each kind has the "
    "most of it at any time of a step; all memory is what is allocated, less than their sum, for "
    "not all are largest at once.\n";
constexpr std::string_view kMarkdownBegin = "# Recipes compared on ";

// What the table is of: the same for all runs.
std::string plan_sentence(const FinishedRuns& finished) {
  const RunConfig& config = finished.runs.front().config;
  const size_t missing = finished.runs.size() - finished.finished.size();
  const report::ComparedRun& first = finished.finished.front();
  std::string text =
      fmt::format("{} of {} sequences each, seeds from {} on. Trained on {}. Validated on {}.",
                  counted(config.train.steps, "step"), config.train.batch * config.train.accumulate,
                  config.seed, report::trained_on(first), report::validated_on(first));
  if (!finished.table.recipe_keys.empty())
    text +=
        fmt::format(" Over each recipe: {}.",
                    on_one_line(fmt::format("{}", fmt::join(finished.table.recipe_keys, ", "))));
  if (missing > 0)
    text += fmt::format(" {} of {} are missing.", missing,
                        counted(static_cast<int64_t>(finished.runs.size()), "run"));
  return text;
}

/// What `say` says of each recipe: its label before each line, and behind that the point of the
/// grid where not all points have the same lines.
template <class Say>
std::string said_of_each(const FinishedRuns& finished, std::string_view before, const Say& say) {
  using Lines = std::vector<std::string>;
  std::vector<std::pair<std::string, std::vector<const RecipeNumbers*>>> recipes;
  for (const RecipeNumbers& numbers : finished.numbers) {
    const auto same = std::ranges::find(recipes, numbers.of.label,
                                        [](const auto& recipe) { return recipe.first; });
    if (same == recipes.end())
      recipes.push_back({numbers.of.label, {&numbers}});
    else
      same->second.push_back(&numbers);
  }
  std::string text;
  for (const auto& [label, points] : recipes) {
    std::vector<Lines> lines;
    for (const RecipeNumbers* numbers : points) lines.push_back(say(*numbers));
    const bool are_alike = std::ranges::count(lines, lines.front()) == std::ssize(lines);
    for (size_t i = 0; i < (are_alike ? 1 : lines.size()); ++i) {
      const std::string point = are_alike ? "" : ", " + ng::text_of(points[i]->of.settings);
      for (const std::string& line : lines[i])
        text += fmt::format("{}{}{}{}\n", before, label, point, line);
    }
  }
  return text;
}

/// "nvfp4-late-bf16 is validated in its phase 1 (the last of 2: ...)." of each that has several.
std::string phases_of(const FinishedRuns& finished, std::string_view before) {
  return said_of_each(finished, before, [](const RecipeNumbers& numbers) {
    std::vector<std::string> lines;
    const auto last = static_cast<int>(numbers.recipe.phase_starts().size()) - 1;
    if (last > 0 && numbers.model)
      lines.push_back(" is validated in its " + phase_of(numbers.recipe, last).text());
    return lines;
  });
}

/// "nvfp4: override[1] (...) means: 2 layers, ..." of each that names layers; else empty.
std::string matches_of(const FinishedRuns& finished, std::string_view before) {
  return said_of_each(finished, before, [](const RecipeNumbers& numbers) {
    std::vector<std::string> lines;
    if (!numbers.model) return lines;
    for (const RecipeMatch& match : numbers.recipe.matches(layers_of(*numbers.model)))
      lines.push_back(": " + report::match_text(match));
    return lines;
  });
}

std::string markdown_of(const FinishedRuns& finished) {
  const std::string& place = finished.runs.front().config.place;
  std::string text =
      fmt::format("{}{}\n\n{}\n\n{}\n", kMarkdownBegin,
                  on_one_line(std::filesystem::path(place).stem().string()),
                  plan_sentence(finished), table_of_cells(loss_cells(finished.table)).markdown());
  for (const std::string& sentence : compare_sentences(finished.table))
    text += "- " + sentence + "\n";
  text += phases_of(finished, "- ") + matches_of(finished, "- ");
  text += fmt::format("\n{}\n{}", table_of_cells(cost_cells(finished.table)).markdown(),
                      kMemorySentence);
  const std::string speed = speed_sentence(finished.table);
  return speed.empty() ? text : fmt::format("{}\n{}.\n", text, speed);
}

Json json_of(const RecipeNumbers& numbers) {
  const Recipe& recipe = numbers.recipe;
  Json json = {{"recipe_name", recipe.name()},
               {"recipe_hash", recipe.hash()},
               {"phase", recipe.phase_starts().size() - 1},
               {"phases", recipe.phase_starts()}};
  if (numbers.model) json["matches"] = matches_json(recipe.matches(layers_of(*numbers.model)));
  return json;
}

/// Refuses a folder whose tables are of runs with other settings, but for what tables compare:
/// recipes, seeds, points of a grid by the same keys.
void require_same_settings(const std::vector<CompareRun>& runs, const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 28;
  if (!is_file(path) || file_size(path) == 0) return;
  const Json before = read_json_file(path, kMostBytes);
  const auto refuse = [&](const std::string& key, const std::string& problem) {
    throw Error({.place = path, .key = key, .problem = problem, .remedy = "another --out"});
  };
  std::set<std::string> grid, grid_before;
  for (const auto& [key, value] : runs.front().of.settings) grid.insert(key);
  const Json runs_before = before.value("runs", Json::array());
  for (const Json& run : runs_before) {
    const Json point = run.value("settings", Json::object());
    for (const auto& [key, value] : point.items()) grid_before.insert(key);
  }
  if (!runs_before.empty() && grid != grid_before)
    refuse("--grid", fmt::format("its tables are of a grid by \"{}\", these of one by \"{}\"",
                                 fmt::join(grid_before, ", "), fmt::join(grid, ", ")));
  const Json said = before.value("settings", Json::object());
  PrintedSettings settings;
  for (const auto& [key, value] : said.items())
    settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
  for (const auto& [key, old, now] : differing_settings(settings, runs.front().config))
    if (key != "seed" && !grid.contains(key))
      refuse(key, fmt::format("its tables are of runs with {}, these have {}", json_text(Json(old)),
                              on_one_line(now)));
}

}  // namespace

Table table_of_cells(const CompareCells& cells) {
  Table table(cells.heading);
  for (const std::vector<std::string>& row : cells.rows) table.row(row);
  return table;
}

RecipeNumbers numbers_of(const CompareRun& run) {
  RecipeNumbers numbers{.of = run.of, .recipe = Recipe::load(run.config.recipe), .model = {}};
  numbers.of.twin = TwinOf::none;
  if (const std::string model = join_path(run.folder, kModelFolder); is_folder(model))
    numbers.model = io::read_model_config({model, ""});
  return numbers;
}

std::vector<CompareResult> FinishedRuns::results() const {
  std::vector<CompareResult> all;
  for (const report::ComparedRun& run : finished) all.push_back(run.result);
  return all;
}

void require_own_outputs(const std::vector<CompareRun>& runs, const std::string& out) {
  const std::string page = join_path(out, kPageFile), csv = join_path(out, kCsvFile);
  const std::string json = join_path(out, kJsonFile), markdown = join_path(out, kMarkdownFile);
  require_own_file(page, report::html_begin(), "a comparison's");
  require_own_file(csv, compare_csv({}).substr(0, 24), "a comparison's");
  require_own_file(json, "{\n  \"recipes\": [", "a comparison's");
  require_own_file(markdown, kMarkdownBegin, "a comparison's");
  require_not_read(runs.front().config, std::vector{page, csv, json, markdown});
  require_own_folders(runs);
  require_same_settings(runs, json);
}

void write_compare_files(const FinishedRuns& finished) {
  const auto write = [&](std::string_view name, const std::string& text) {
    write_file_atomically(join_path(finished.out, name), text);
  };
  write(kPageFile, report::html_of(report::compare_page(
                       finished.finished, finished.table, finished.runs.size(), finished.out,
                       phases_of(finished, "") + matches_of(finished, ""))));
  write(kCsvFile, compare_csv(finished.table));
  write(kJsonFile, json_text(json_of(finished), 2) + "\n");
  write(kMarkdownFile, markdown_of(finished));
}

Json json_of(const FinishedRuns& finished) {
  Json json = compare_json(finished.table, finished.runs, finished.results());
  for (size_t i = 0; i < finished.table.rows.size(); ++i) {
    const CompareCase& of = finished.table.rows[i].of;
    for (const RecipeNumbers& numbers : finished.numbers)
      if (numbers.of.label == of.label && numbers.of.settings == of.settings)
        json["recipes"][i].update(json_of(numbers));
  }
  return json;
}

std::string text_of(const FinishedRuns& finished) {
  std::string text =
      plan_sentence(finished) + "\n\n" + table_of_cells(loss_cells(finished.table)).text() + "\n";
  for (const std::string& sentence : compare_sentences(finished.table)) text += sentence + "\n";
  text += phases_of(finished, "") + matches_of(finished, "");
  text +=
      fmt::format("\n{}\n{}", table_of_cells(cost_cells(finished.table)).text(), kMemorySentence);
  const std::string speed = speed_sentence(finished.table);
  return speed.empty() ? text : text + speed + "\n";
}

std::string files_text(const std::string& out) {
  std::string text;
  for (const std::string_view name : {kPageFile, kCsvFile, kJsonFile, kMarkdownFile})
    text += on_one_line(join_path(out, name)) + "\n";
  return text;
}

}  // namespace ng::cli
