#include "report/compare_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "report/charts.h"
#include "report/run_page.h"

namespace ng::report {
namespace {

constexpr size_t kComparePoints = 500;

/// Finished runs of one recipe.
using Seeds = std::span<const ComparedRun>;

std::vector<Seeds> by_recipe(std::span<const ComparedRun> runs) {
  std::vector<Seeds> recipes;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].run.label == runs[begin].run.label) ++end;
    recipes.push_back(runs.subspan(begin, end - begin));
  }
  return recipes;
}

Line without_band(Line line) {
  line.low.clear();
  line.high.clear();
  return line;
}

// One line for each recipe: the mean over its seeds of what `get` gives of a run.
template <class Get>
std::vector<Line> lines_of(const std::vector<Seeds>& recipes, const Get& get) {
  std::vector<Line> lines;
  for (size_t i = 0; i < recipes.size(); ++i) {
    std::vector<Line> seeds;
    for (const ComparedRun& run : recipes[i]) seeds.push_back(get(run));
    lines.push_back(mean_of(recipes[i].front().run.label, static_cast<int>(i), seeds));
  }
  return lines;
}

// y of a line less that of another at the same x; x without a partner are left out.
Line difference(const Line& line, const Line& from) {
  std::map<double, double> base;
  for (size_t i = 0; i < from.x.size(); ++i) base[from.x[i]] = from.y[i];
  Line result = without_band(line);
  result.x.clear();
  result.y.clear();
  for (size_t i = 0; i < line.x.size(); ++i) {
    const auto found = base.find(line.x[i]);
    if (found == base.end()) continue;
    result.x.push_back(line.x[i]);
    result.y.push_back(line.y[i] - found->second);
  }
  return result;
}

// Seed by seed to the first recipe: what the seeds have in common falls out.
std::vector<Line> differences_of(const std::vector<Seeds>& recipes) {
  return lines_of(recipes, [&](const ComparedRun& run) {
    for (const ComparedRun& first : recipes.front())
      if (first.run.config.seed == run.run.config.seed)
        return difference(run.val_loss, first.val_loss);
    return Line{.name = "", .x = {}, .y = {}};
  });
}

Section loss_section(const std::vector<Seeds>& recipes) {
  Section section{.heading = "Loss",
                  .note =
                      "Lines are means over the seeds that got so far, bands go from the lowest to "
                      "the highest of them. Training losses are moving averages."};
  Chart validation = loss_chart("Validation"), training = loss_chart("Training");
  Chart differences = loss_chart("Validation, difference to " + recipes.front().front().run.label);
  differences.y_label = "nats per token, seed by seed";
  validation.lines = lines_of(recipes, [](const ComparedRun& run) { return run.val_loss; });
  for (Line& line : validation.lines) line.style = Line::Style::marked;
  training.lines = lines_of(recipes, [](const ComparedRun& run) { return run.loss; });
  section.charts = {validation, training};
  if (recipes.size() < 2) return section;
  differences.lines = differences_of(recipes);
  for (Line& line : differences.lines) line.style = Line::Style::marked;
  section.charts.insert(section.charts.begin() + 1, differences);
  return section;
}

Section course_section(const std::vector<Seeds>& recipes) {
  Section section{.heading = "Learning rate, gradient norm, speed"};
  section.charts = {lr_chart(), grad_norm_chart(), speed_chart()};
  section.charts[0].lines = lines_of(recipes, [](const ComparedRun& run) { return run.lr; });
  section.charts[1].lines = lines_of(recipes, [](const ComparedRun& run) { return run.grad_norm; });
  section.charts[2].lines =
      lines_of(recipes, [](const ComparedRun& run) { return run.tokens_per_second; });
  return section;
}

Section operand_section(const std::vector<Seeds>& recipes) {
  Section section{.heading = "What casts lose, by operand",
                  .note = std::string(kOperandNote) +
                          " Means over all layers; each run's own report has them by layer."};
  for (const std::string& role : role_names()) {
    std::vector<Chart> charts;
    bool counted = false;
    for (const Loss loss : kAllLosses) {
      Chart chart = operand_chart(role, loss);
      for (Line& line : lines_of(recipes, [&](const ComparedRun& run) {
             return run.operands.at(role)[static_cast<size_t>(loss)];
           }))
        if (!line.x.empty()) chart.lines.push_back(std::move(line));
      counted |= !chart.lines.empty();
      charts.push_back(std::move(chart));
    }
    if (counted) section.charts.insert(section.charts.end(), charts.begin(), charts.end());
  }
  return section;
}

std::string with_deviation(double mean, double deviation, int64_t seeds) {
  return seeds < 2 ? fmt::format("{:.4f}", mean) : fmt::format("{:.4f} ± {:.4f}", mean, deviation);
}

Table result_table(std::span<const ComparedRun> runs, const std::vector<Seeds>& recipes) {
  Table table{.heading = {"recipe", "seeds", "validation loss", "to the first", "bits per byte",
                          "tokens/s", "bytes per parameter", "steps skipped"},
              .rows = {}};
  // Rows are for recipes with all their seeds; the last one may still be at work.
  const size_t seeds = recipes.front().size();
  std::vector<CompareResult> results;
  for (const ComparedRun& run : runs) results.push_back(run.result);
  results.resize(results.size() / seeds * seeds);
  for (const CompareRow& row : compare_rows(results)) {
    const bool differs = !table.rows.empty() && !std::isnan(row.difference);
    table.rows.push_back(
        {{on_one_line(row.label)},
         {std::to_string(row.seeds)},
         {row.diverged != 0 ? divergence_text(row)
                            : with_deviation(row.val_loss, row.val_loss_sd, row.seeds)},
         {differs ? (row.difference < 0 ? "" : "+") +
                        with_deviation(row.difference, row.difference_sd, row.seeds)
                  : ""},
         {std::isnan(row.bits_per_byte) ? "" : fmt::format("{:.4f}", row.bits_per_byte)},
         {count_text(std::llround(row.tokens_per_second))},
         {fmt::format("{:.2f}", row.bytes_per_parameter.total)},
         {count_text(row.skipped)}});
  }
  return table;
}

Bars memory_bars(const CompareResult& result) {
  Bars bars{.title = result.label + ": memory, bytes per parameter", .bars = {}};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    if (const double bytes = result.bytes_per_parameter.most[kind]; bytes > 0)
      bars.bars.push_back({std::string(name_of(static_cast<MemoryKind>(kind))), bytes,
                           fmt::format("{:.2f}", bytes)});
  return bars;
}

Section cost_section(const std::vector<Seeds>& recipes) {
  Section section{.heading = "Time and memory"};
  for (const Seeds& recipe : recipes) {
    std::map<std::string, double> seconds;
    for (const ComparedRun& run : recipe)
      for (const auto& [kind, value] : run.seconds) seconds[kind] += value;
    section.bars.push_back(time_bars(recipe.front().run.label + ": time, all seeds", seconds));
    section.bars.push_back(memory_bars(recipe.front().result));
  }
  return section;
}

Section runs_section(std::span<const ComparedRun> runs) {
  Section section{.heading = "Runs"};
  section.table.heading = {"recipe",        "seed",     "validation loss",
                           "bits per byte", "tokens/s", "report"};
  for (const ComparedRun& one : runs) {
    const std::string name = std::filesystem::path(one.run.folder).filename().string();
    const bool diverged = std::isnan(one.result.val_loss);
    const std::string when =
        one.result.diverged != 0 ? fmt::format(" at step {}", one.result.diverged) : "";
    const bool has_report = is_file(join_path(one.run.folder, "report.html"));
    section.table.rows.push_back(
        {{on_one_line(one.run.label)},
         {std::to_string(one.run.config.seed)},
         {diverged ? "diverged" + when : fmt::format("{:.4f}", one.result.val_loss)},
         {std::isnan(one.result.bits_per_byte) ? ""
                                               : fmt::format("{:.4f}", one.result.bits_per_byte)},
         {count_text(std::llround(one.result.tokens_per_second))},
         {on_one_line(name), has_report ? name + "/report.html" : std::string()}});
  }
  return section;
}

Section recipe_section(const std::vector<Seeds>& recipes) {
  Section section{.heading = "Recipes"};
  for (const Seeds& recipe : recipes) {
    const CompareRun& run = recipe.front().run;
    section.listings.push_back(
        {run.label + ", resolved", Recipe::load(run.config.recipe).resolved_toml()});
  }
  section.listings.push_back(
      {"Run file of the first run, resolved", recipes.front().front().run.config.resolved_toml()});
  return section;
}

}  // namespace

ComparedRun compared_run(const CompareRun& run, const CompareResult& result) {
  History history(join_path(run.folder, "metrics.jsonl"), kComparePoints);
  history.read();
  const auto curve = [](const Series& series) { return smoothed(line_of("", 0, series)); };
  ComparedRun compared{.run = run,
                       .result = result,
                       .loss = curve(history.loss()),
                       .val_loss = without_band(line_of("", 0, history.val_loss())),
                       .lr = without_band(line_of("", 0, history.lr())),
                       .grad_norm = curve(history.grad_norm()),
                       .tokens_per_second = curve(history.tokens_per_second()),
                       .operands = {},
                       .seconds = history.seconds_by_kind()};
  for (const std::string& role : role_names())
    for (const Loss loss : kAllLosses)
      compared.operands[role][static_cast<size_t>(loss)] =
          without_band(operand_line(history, role, loss));
  return compared;
}

Page compare_page(std::span<const ComparedRun> runs, size_t planned, const std::string& out) {
  NG_CHECK(!runs.empty(), planned);
  const std::vector<Seeds> recipes = by_recipe(runs);
  const RunConfig& config = runs.front().run.config;
  const std::string name = std::filesystem::path(config.place).stem().string();
  Page page;
  page.title = fmt::format("Recipes compared on {}", on_one_line(name));
  page.subtitle = fmt::format("{} of {} runs are finished", runs.size(), planned);
  page.facts = {{"run", on_one_line(config.place)},
                {"folder", on_one_line(out)},
                {"steps", count_text(config.train.steps)}};
  Section results{.heading = "Results",
                  .note =
                      "Losses are those of the last validation, means over the seeds ± the "
                      "deviation of one. The difference to the first recipe is taken seed by "
                      "seed: both have the same batches and the same first weights."};
  results.table = result_table(runs, recipes);
  page.sections = {results, loss_section(recipes), course_section(recipes)};
  if (Section casts = operand_section(recipes); !casts.charts.empty())
    page.sections.push_back(std::move(casts));
  page.sections.push_back(cost_section(recipes));
  page.sections.push_back(runs_section(runs));
  page.sections.push_back(recipe_section(recipes));
  return page;
}

}  // namespace ng::report
