#include "report/stretch_section.h"

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/units.h"

namespace ng::report {
namespace {

constexpr const char* kStretchNote =
    "The run was resumed with other settings after these steps. Charts have a line there; what the "
    "rest of this page says of settings, recipe and memory holds since the last of them.";

bool has_changes(const Stretch& stretch) {
  return stretch.changed.is_object() && !stretch.changed.empty();
}

std::string side_text(const Json& sides, const char* side) {
  return on_one_line(setting_text(sides.value(side, Json())));
}

// The first key, and how many more there are.
std::string brief_change(const Stretch& stretch) {
  const Json::const_iterator first = stretch.changed.begin();
  std::string text = fmt::format("{}: {} \u2192 {}", first.key(), side_text(*first, "before"),
                                 side_text(*first, "now"));
  if (stretch.changed.size() > 1) text += fmt::format(" and {} more", stretch.changed.size() - 1);
  return text;
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

std::vector<Mark> change_marks(std::span<const Stretch> stretches) {
  std::vector<Mark> marks;
  for (const Stretch& stretch : stretches)
    if (has_changes(stretch))
      marks.push_back({static_cast<double>(stretch.first) + 0.5, brief_change(stretch)});
  return marks;
}

Section stretch_section(std::span<const Stretch> stretches) {
  Section section{
      .heading = "Settings that changed",
      .note = kStretchNote,
      .table = {.heading = {"after step", "setting", "until there", "since"}, .rows = {}}};
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
