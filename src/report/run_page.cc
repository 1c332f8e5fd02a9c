#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "report/bit_maps.h"
#include "report/charts.h"
#include "report/memory_text.h"
#include "report/run_text.h"
#include "report/stretch_section.h"
#include "report/traffic_text.h"
#include "train/run_files.h"
#include "train/session_ranks.h"

namespace ng::report {
namespace {

std::string last_values(const RunFacts& facts, const History& history) {
  std::string text = fmt::format("{} of {} steps, {} tokens", count_text(history.steps()),
                                 count_text(facts.steps), count_text(history.tokens()));
  if (history.seconds() > 0) text += " in " + duration_text(history.seconds());
  if (std::isfinite(history.last_val_loss()))
    text +=
        fmt::format("; validation loss {:.4f} in the recipe's numbers", history.last_val_loss());
  if (std::isfinite(history.last_bits_per_byte()))
    text += fmt::format(", {:.4f} bits per byte", history.last_bits_per_byte());
  if (history.skipped() > 0)
    text += fmt::format("; {} steps skipped: something was not finite", history.skipped());
  return text;
}

Section loss_section(const History& history) {
  Section section{.heading = "Loss"};
  LineChart chart = loss_chart("");
  if (!history.preferences().empty()) chart.y_label = "loss of pairs, nats";
  Line training = line_of("training", 0, history.loss());
  const Line average = smoothed(training);
  const bool is_smooth = average.y == training.y;
  if (!is_smooth) training.style = Line::Style::faint;
  chart.lines.push_back(training);
  if (!is_smooth) {
    chart.lines.push_back(average);
    chart.lines.back().name = "training, moving average";
  }
  if (!history.val_loss().buckets().empty()) {
    chart.lines.push_back(line_of("validation", 1, history.val_loss()));
    chart.lines.back().style = Line::Style::marked;
  }
  section.charts = {chart};
  return section;
}

Section course_section(const RunFacts& facts, const History& history) {
  const int ranks = facts.traffic.ranks;
  Section section{.heading = "Learning rate, gradient norm, speed",
                  .note = fmt::format(
                      "Speed is that of {}{}, as it was at that moment, with whatever else ran "
                      "there: it says nothing of a recipe.",
                      ranks > 1 ? fmt::format("{} ranks, each on ", ranks) : "", facts.machine)};
  const auto add = [&](LineChart chart, const Series& series) {
    chart.lines = {line_of(chart.title, 0, series)};
    section.charts.push_back(std::move(chart));
  };
  add(lr_chart(), history.lr());
  add(grad_norm_chart(), history.grad_norm());
  add(speed_chart(), history.tokens_per_second());
  return section;
}

Section recipe_section(const RunFacts& facts) {
  return {.heading = "Recipe",
          .listings = {{"In short", facts.recipe},
                       {"Resolved, every key written out", facts.recipe_toml},
                       {"Run file, resolved", facts.run_toml}}};
}

constexpr const char* kMemoryNote =
    "Memory as planned before step 1, which is what is allocated. Most: of each kind at any time "
    "of a step, scales included, also per parameter of the model; beside it what FP32 AdamW would "
    "need for the same batch.";

Table memory_table(const RunFacts& facts) {
  Table table{.heading = memory_heading(), .rows = {}};
  for (const std::vector<std::string>& row :
       memory_rows(facts.memory, facts.memory_in_fp32, facts.parameters)) {
    table.rows.emplace_back();
    for (const std::string& text : row) table.rows.back().push_back({.text = text});
  }
  return table;
}

void add_bits(Page& page, const RunFacts& facts, const History& history) {
  Section bits{.heading = "Bit-widths that noise learns, by layer",
               .note = kBitNote,
               .choice_label = "layers",
               .choices = bit_charts(history)};
  if (RangeChart ranges = bit_ranges(facts.bits, facts.bits_step); !ranges.items.empty())
    bits.ranges = {std::move(ranges)};
  if (!bits.choices.empty() || !bits.ranges.empty()) page.sections.push_back(std::move(bits));
  Section maps{.heading = "Bit-widths of the blocks of weights",
               .note = kMapNote,
               .choice_label = "layers of",
               .choices = bit_maps(facts.bits, most_cells(facts.bits.size()))};
  if (!maps.choices.empty()) page.sections.push_back(std::move(maps));
}

// A run that goes on by its own run.toml is called as its folder is.
std::string name_of_run(const RunConfig& config, const std::string& folder) {
  const std::filesystem::path file(config.place);
  if (file.filename() != kRunFile) return file.stem().string();
  const auto place = std::filesystem::absolute(folder).lexically_normal();
  return (place.has_filename() ? place : place.parent_path()).filename().string();
}

}  // namespace

RunFacts facts_of(Session& session) {
  const RunConfig& config = session.config();
  RunFacts facts;
  facts.name = name_of_run(config, session.folder());
  facts.steps = config.train.steps;
  facts.parameters = session.model().parameter_count();
  facts.machine = machine_text(session.run().backend(), {session.threads()});
  facts.memory = session.trainer().memory();
  facts.memory_in_fp32 = session.memory_in_fp32();
  facts.lines = {
      {"run", on_one_line(config.place) + " in " + on_one_line(session.folder())},
      {"model", model_text(session.model().config())},
      {"parameters", count_text(facts.parameters)},
      {"text", data_text(session.data())},
      {"schedule",
       schedule_text(config, session.trainer().settings(), session.run().comm().ranks())},
      {"recipe", fmt::format("{} (hash {})", session.recipe().name(), session.recipe().hash())},
      {"seed", std::to_string(config.seed) + twin_text(session)},
      {"backend", fmt::format("{} ({})", config.train.backend, facts.machine)}};
  if (const FoundTexts& files = session.data().origin().train; !files.read.empty())
    facts.lines.emplace_back("files", text_of(files));
  facts.traffic = traffic_of(session);
  if (facts.traffic.ranks > 1)
    facts.lines.emplace_back("ranks", fmt::format("{}, which send {}", facts.traffic.ranks,
                                                  traffic_text(facts.traffic)));
  if (const std::string roles = roles_text(facts.memory); !roles.empty())
    facts.lines.emplace_back("roles", roles);
  facts.recipe = recipe_text(session) + matches_text(session);
  facts.recipe_toml = session.recipe().resolved_toml();
  facts.run_toml = config.resolved_toml();
  return facts;
}

Page run_page(const RunFacts& facts, const History& history) {
  Page page;
  page.title = fmt::format("Training run {}", on_one_line(facts.name));
  page.subtitle = last_values(facts, history);
  page.facts = facts.lines;
  if (const std::string resumed = resumed_text(history.stretches()); !resumed.empty())
    page.facts.emplace_back("resumed", resumed);
  page.marks = marks_of(history.stretches(), facts.steps);
  page.sections = {loss_section(history)};
  if (!history.preferences().empty()) page.sections.push_back(preference_section(history));
  page.sections.push_back(course_section(facts, history));
  if (Section changes = stretch_section(history.stretches()); !changes.table.rows.empty())
    page.sections.push_back(std::move(changes));
  Section casts{.heading = "What casts lose, by layer and operand",
                .note = kOperandNote,
                .choice_label = "layers",
                .choices = operand_charts(history)};
  if (!casts.choices.empty()) page.sections.push_back(std::move(casts));
  Section updates{.heading = "What updates do, by layer",
                  .note = kUpdateNote,
                  .choice_label = "layers",
                  .choices = update_charts(history)};
  if (!updates.choices.empty()) page.sections.push_back(std::move(updates));
  add_bits(page, facts, history);
  page.sections.push_back(
      {.heading = "Time and memory",
       .note = kMemoryNote,
       .bars = {time_bars("Time of steps and validation", history.seconds_by_kind()),
                memory_bars(facts.memory, facts.parameters)},
       .table = memory_table(facts)});
  if (facts.traffic.ranks > 1) page.sections.push_back(traffic_section(facts.traffic, history));
  page.sections.push_back(recipe_section(facts));
  if (!facts.sample.empty())
    page.sections.push_back({.heading = "Sample", .listings = {{"", readable(facts.sample)}}});
  return page;
}

Bars time_bars(const std::string& title, const std::map<std::string, double>& seconds) {
  double total = 0;
  for (const auto& [kind, value] : seconds) total += value;
  Bars bars{.title = title, .bars = {}};
  for (const auto& [kind, value] : seconds)
    if (value > 0)
      bars.bars.push_back(
          {kind, value, fmt::format("{:.2f} s, {:.1f} %", value, 100 * value / total)});
  std::sort(bars.bars.begin(), bars.bars.end(),
            [](const Bar& a, const Bar& b) { return a.value > b.value; });
  return bars;
}

Bars memory_bars(const MemoryPlan& plan, int64_t parameters) {
  Bars bars{.title = fmt::format("Memory: {} in all", size_text(static_cast<double>(plan.total))),
            .bars = {}};
  const auto add = [&](std::string_view name, size_t bytes) {
    const auto size = static_cast<double>(bytes);
    if (bytes > 0)
      bars.bars.push_back({std::string(name), size,
                           fmt::format("{}, {:.2f} bytes per parameter", size_text(size),
                                       size / static_cast<double>(parameters))});
  };
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    add(name_of(static_cast<MemoryKind>(kind)), plan.bytes[kind]);
  add("gaps", plan.gaps);
  return bars;
}

}  // namespace ng::report
