#include "report/stretch_section.h"

#include <fmt/ranges.h>

#include <cstdint>

#include "base/text.h"
#include "base/units.h"
#include "recipe/recipe.h"

namespace ng::report {
namespace {

constexpr const char* kStretchNote =
    "The run was resumed with other settings after these steps. Charts have a line there; what the "
    "rest of this page says of settings, recipe and memory holds since the last of them.";

bool has_changes(const Stretch& stretch) {
  return stretch.changed.is_object() && !stretch.changed.empty();
}

// A text stands without quotes: of what is no JSON in TOML, such as a table, all of it is one.
std::string value_text(const Json& value) {
  const bool is_plain = value.is_string() && !value.get_ref<const std::string&>().empty();
  return on_one_line(is_plain ? value.get<std::string>() : setting_text(value));
}

std::string side_text(const Json& sides, const char* side) {
  return value_text(sides.value(side, Json()));
}

std::vector<std::string> lines_of_changes(const Stretch& stretch) {
  std::vector<std::string> lines;
  for (const auto& [key, sides] : stretch.changed.items())
    lines.push_back(
        fmt::format("{}: {} \u2192 {}", key, side_text(sides, "before"), side_text(sides, "now")));
  return lines;
}

std::string prefix_of_phase(int phase) { return fmt::format("recipe.phase[{}].", phase); }

// "phase 1 of the recipe: linear.fprop.input = bf16", and a line for each further key.
std::vector<std::string> lines_of_phase(const Json& settings, int phase) {
  const std::string prefix = prefix_of_phase(phase);
  std::string begin = fmt::format("phase {} of the recipe: ", phase);
  std::vector<std::string> lines;
  for (const auto& [key, value] : settings.items()) {
    if (!key.starts_with(prefix) || key == prefix + "start") continue;
    lines.push_back(fmt::format("{}{} = {}", begin, key.substr(prefix.size()), value_text(value)));
    begin.clear();
  }
  return lines;
}

double setting_number(const Json& settings, const std::string& key, double otherwise) {
  const Json value = settings.is_object() ? settings.value(key, Json()) : Json();
  return value.is_number() ? value.get<double>() : otherwise;
}

// Those that begin in steps [stretch.first, end).
void add_phases(const Stretch& stretch, int64_t end, int64_t of_run, std::vector<Mark>& marks) {
  const auto steps = static_cast<int64_t>(
      setting_number(stretch.settings, "train.steps", static_cast<double>(of_run)));
  for (int phase = 1;; ++phase) {
    const double start = setting_number(stretch.settings, prefix_of_phase(phase) + "start", 0);
    if (start <= 0 || steps <= 0) return;
    const int64_t before = steps_before(start, steps);
    if (before >= stretch.first && before < end)
      marks.push_back({static_cast<double>(before) + 0.5, lines_of_phase(stretch.settings, phase)});
  }
}

}  // namespace

std::string resumed_text(std::span<const Stretch> stretches) {
  if (stretches.size() < 2) return "";
  std::vector<std::string> steps;
  for (const Stretch& stretch : stretches)
    if (has_changes(stretch)) steps.push_back(count_text(stretch.first));
  const std::string times = counted(std::ssize(stretches) - 1, "time");
  if (steps.empty()) return times + ", with the same settings";
  return fmt::format(
      "{}, with other settings after step{} {} (table below): what is said here "
      "holds since then",
      times, steps.size() > 1 ? "s" : "", fmt::join(steps, ", "));
}

std::vector<Mark> marks_of(std::span<const Stretch> stretches, int64_t steps) {
  std::vector<Mark> marks;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& stretch = stretches[i];
    if (has_changes(stretch))
      marks.push_back({static_cast<double>(stretch.first) + 0.5, lines_of_changes(stretch)});
    const int64_t end = i + 1 < stretches.size() ? stretches[i + 1].first : INT64_MAX;
    add_phases(stretch, end, steps, marks);
  }
  return marks;
}

Section stretch_section(std::span<const Stretch> stretches) {
  Section section{.heading = "Settings that changed",
                  .note = kStretchNote,
                  .table = {.heading = {"after step", "setting", "until there", "since"},
                            .rows = {},
                            .is_of_words = true}};
  for (const Stretch& stretch : stretches) {
    if (!has_changes(stretch)) continue;
    for (const auto& [key, sides] : stretch.changed.items())
      section.table.rows.push_back({{count_text(stretch.first)},
                                    {key},
                                    {side_text(sides, "before")},
                                    {side_text(sides, "now")}});
  }
  return section;
}

}  // namespace ng::report
