#include "report/compare_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "report/charts.h"
#include "report/run_page.h"
#include "train/run_inputs.h"

namespace ng::report {
namespace {

constexpr size_t kComparePoints = 500;

/// Finished runs of one recipe, at one point of a grid.
using Seeds = std::span<const ComparedRun>;

// Twins left out: their place is beside intervals.
std::vector<Seeds> by_recipe(std::span<const ComparedRun> runs) {
  std::vector<Seeds> recipes;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].run.of == runs[begin].run.of) ++end;
    if (runs[begin].run.of.twin == TwinOf::none)
      recipes.push_back(runs.subspan(begin, end - begin));
  }
  return recipes;
}

std::string name_of_case(const CompareCase& of) {
  const std::string point = text_of(of.settings);
  return point.empty() ? of.label : of.label + ", " + point;
}

// What a recipe is compared with: the first one at its point of the grid; of a single recipe the
// first point.
const Seeds& first_of(const std::vector<Seeds>& recipes, const CompareCase& of) {
  const auto label_of = [](const Seeds& recipe) { return recipe.front().run.of.label; };
  const std::string first = label_of(recipes.front());
  const bool are_several =
      std::ranges::any_of(recipes, [&](const Seeds& recipe) { return label_of(recipe) != first; });
  for (const Seeds& recipe : recipes)
    if (are_several && label_of(recipe) == first && recipe.front().run.of.settings == of.settings)
      return recipe;
  return recipes.front();
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
    lines.push_back(mean_of(name_of_case(recipes[i].front().run.of), static_cast<int>(i), seeds));
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
    for (const ComparedRun& first : first_of(recipes, run.run.of))
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
  LineChart validation = loss_chart("Validation"), training = loss_chart("Training");
  LineChart differences =
      loss_chart("Validation, difference to " + recipes.front().front().run.of.label);
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
    std::vector<LineChart> charts;
    bool counted = false;
    for (const Loss loss : kAllLosses) {
      LineChart chart = operand_chart(role, loss);
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

Table table_of_cells(const CompareCells& cells) {
  Table table{.heading = cells.heading, .rows = {}};
  for (const std::vector<std::string>& row : cells.rows) {
    table.rows.emplace_back();
    for (const std::string& text : row) table.rows.back().push_back({on_one_line(text)});
  }
  return table;
}

RangeChart::Item interval_item(const CompareRow& row, const ComparedLoss& loss,
                               const NoiseFloor& floor, bool in_bf16) {
  const PairedDifference& d = loss.difference;
  const double half = std::isnan(d.half) ? 0 : d.half;
  const bool is_twin = row.of.twin != TwinOf::none;
  const std::string name = name_of_case(row.of) + (is_twin ? ", twin, to its own" : "");
  const char* const kind = in_bf16 ? "in BF16" : "in own numbers";
  return {.name = fmt::format("{}, {}", name, kind),
          .kind = kind,
          .group = name,
          .color = in_bf16 ? 1 : 0,
          .mean = d.mean,
          .sd = half,
          .low = d.mean - half,
          .high = d.mean + half,
          .floor = in_bf16 ? floor.bf16 : floor.own};
}

// That of the twins at a row's point of the grid.
NoiseFloor floor_of(const CompareTable& table, const CompareRow& row) {
  for (const NoiseFloor& floor : table.floors)
    if (table.rows[floor.row].of.settings == row.of.settings) return floor;
  return {.own = NAN, .bf16 = NAN};
}

// Differences and their intervals, about a line at 0 and between those of the noise floors.
RangeChart interval_chart(const CompareTable& table) {
  RangeChart chart{.title = "Validation loss less that of the first recipe",
                   .y_label = "nats per token, mean and 95 % interval",
                   .note =
                       "Of each recipe on the left in its own numbers, on the right the same "
                       "models in BF16.",
                   .levels = {0},
                   .spans_levels = true,
                   .items = {}};
  for (const CompareRow& row : table.rows) {
    if (row.against.empty()) continue;
    const NoiseFloor floor = floor_of(table, row);
    if (!std::isnan(row.own.difference.mean))
      chart.items.push_back(interval_item(row, row.own, floor, false));
    if (!std::isnan(row.bf16.difference.mean))
      chart.items.push_back(interval_item(row, row.bf16, floor, true));
  }
  if (!table.floors.empty())
    chart.note += " Dashed above and below 0: the noise floor, at each point of a grid its own.";
  return chart;
}

Section result_section(const CompareTable& table) {
  Section section{.heading = "Results",
                  .note =
                      "Losses are those of the last validation, means over the seeds. "
                      "Differences are taken seed by seed: both runs have the same batches "
                      "and the same first weights."};
  for (const std::string& sentence : compare_sentences(table)) section.note += "\n" + sentence;
  section.table = table_of_cells(loss_cells(table));
  if (RangeChart chart = interval_chart(table); !chart.items.empty())
    section.ranges.push_back(std::move(chart));
  return section;
}

Bars memory_bars(const CompareResult& result) {
  Bars bars{.title = name_of_case(result.of) + ": memory, bytes per parameter", .bars = {}};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    if (const double bytes = result.bytes_per_parameter.most[kind]; bytes > 0)
      bars.bars.push_back({std::string(name_of(static_cast<MemoryKind>(kind))), bytes,
                           fmt::format("{:.2f}", bytes)});
  return bars;
}

Section cost_section(const std::vector<Seeds>& recipes, const CompareTable& table) {
  Section section{.heading = "Time and memory",
                  .note = "Memory is planned, in bytes for each parameter."};
  if (const std::string speed = speed_sentence(table); !speed.empty())
    section.note += " " + speed + ".";
  section.table = table_of_cells(cost_cells(table));
  for (const Seeds& recipe : recipes) {
    std::map<std::string, double> seconds;
    for (const ComparedRun& run : recipe)
      for (const auto& [kind, value] : run.seconds) seconds[kind] += value;
    section.bars.push_back(
        time_bars(name_of_case(recipe.front().run.of) + ": time, all seeds", seconds));
    section.bars.push_back(memory_bars(recipe.front().result));
  }
  return section;
}

Section runs_section(std::span<const ComparedRun> runs, const std::string& out) {
  Section section{.heading = "Runs"};
  section.table.heading = {"recipe",        "seed",     "validation loss", "in BF16",
                           "bits per byte", "tokens/s", "report"};
  const auto number = [](double value) {
    return std::isnan(value) ? std::string() : fmt::format("{:.4f}", value);
  };
  for (const ComparedRun& one : runs) {
    const std::string name =
        std::filesystem::path(one.run.folder).lexically_relative(out).generic_string();
    const bool diverged = std::isnan(one.result.val_loss);
    const std::string when =
        one.result.diverged != 0 ? fmt::format(" at step {}", one.result.diverged) : "";
    const bool has_report = is_file(join_path(one.run.folder, "report.html"));
    section.table.rows.push_back(
        {{on_one_line(name_of_case(one.run.of)) +
          (one.run.of.twin == TwinOf::none ? "" : ", twin")},
         {std::to_string(one.run.config.seed)},
         {diverged ? "diverged" + when : number(one.result.val_loss)},
         {number(one.result.val_loss_bf16)},
         {number(one.result.bits_per_byte)},
         {count_text(std::llround(one.result.tokens_per_second))},
         {on_one_line(name), has_report ? name + "/report.html" : std::string()}});
  }
  return section;
}

Section recipe_section(const std::vector<Seeds>& recipes, const std::string& numbers) {
  Section section{.heading = "Recipes"};
  if (!numbers.empty()) section.listings.push_back({"Phases and layers", numbers});
  std::map<std::string, std::set<std::string>> listed;  // of each label, as a grid may change it
  for (const Seeds& recipe : recipes) {
    const CompareRun& run = recipe.front().run;
    const std::string toml = Recipe::load(run.config.recipe).resolved_toml();
    std::set<std::string>& same = listed[run.of.label];
    const std::string name = same.empty() ? run.of.label : name_of_case(run.of);
    if (same.insert(toml).second) section.listings.push_back({name + ", resolved", toml});
  }
  section.listings.push_back(
      {"Run file of the first run, resolved", recipes.front().front().run.config.resolved_toml()});
  return section;
}

std::string seeds_text(std::span<const ComparedRun> runs) {
  std::set<uint64_t> seeds;
  for (const ComparedRun& run : runs) seeds.insert(run.run.config.seed);
  return fmt::format("{}, from {} on", seeds.size(), *seeds.begin());
}

std::string with_what_was_found(const std::string& named, const std::string& found) {
  return found.empty() ? named : named + ": " + found;
}

std::string names_text(const std::vector<std::string>& names) {
  return on_one_line(fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

std::string trained_on(const ComparedRun& run) {
  return with_what_was_found(names_text(run.run.config.data.train), run.train_text);
}

std::string validated_on(const ComparedRun& run) {
  const RunData& data = run.run.config.data;
  const std::string named = data.validation_files.empty()
                                ? fmt::format("{:g} % of that text", 100 * data.validation_share)
                                : names_text(data.validation_files);
  return with_what_was_found(named, run.validation_text);
}

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
                       .seconds = history.seconds_by_kind(),
                       .train_text = history.train_text(),
                       .validation_text = history.validation_text()};
  for (const std::string& role : role_names())
    for (const Loss loss : kAllLosses)
      compared.operands[role][static_cast<size_t>(loss)] =
          without_band(operand_line(history, role, loss));
  return compared;
}

Page compare_page(std::span<const ComparedRun> finished, const CompareTable& table, size_t planned,
                  const std::string& out, const std::string& numbers) {
  NG_CHECK(!finished.empty(), planned);
  const std::vector<Seeds> recipes = by_recipe(finished);
  const RunConfig& config = finished.front().run.config;
  const std::string name = std::filesystem::path(config.place).stem().string();
  Page page;
  page.title = fmt::format("Recipes compared on {}", on_one_line(name));
  page.subtitle = fmt::format("{} of {} runs are finished", finished.size(), planned);
  page.facts = {{"run", on_one_line(config.place)},
                {"folder", on_one_line(out)},
                {"steps", steps_text(config.train)},
                {"seeds", seeds_text(finished)},
                {"trained on", trained_on(finished.front())},
                {"validated on", validated_on(finished.front())}};
  if (!table.recipe_keys.empty())
    page.facts.emplace_back("over each recipe", names_text(table.recipe_keys));
  page.sections = {result_section(table)};
  if (recipes.empty()) return page;  // nothing but twins is left
  page.sections.push_back(loss_section(recipes));
  page.sections.push_back(course_section(recipes));
  if (Section casts = operand_section(recipes); !casts.charts.empty())
    page.sections.push_back(std::move(casts));
  page.sections.push_back(cost_section(recipes, table));
  page.sections.push_back(runs_section(finished, out));
  page.sections.push_back(recipe_section(recipes, numbers));
  return page;
}

}  // namespace ng::report
