// What a user is told who goes on with another recipe than a run began with.
#include "recipe/difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/first_of.h"
#include "base/text.h"

namespace ng {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostShown = 3;

std::string value_in(const Values& values, const std::string& key) {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == key; });
  return found == values.end() ? "none" : on_one_line(found->second);
}

}  // namespace

std::vector<RecipeChange> changes(const Recipe& before, const Recipe& now) {
  const Values old = before.values(), present = now.values();
  std::vector<RecipeChange> changes;
  for (const Values* values : {&old, &present})
    for (const auto& [key, value] : *values) {
      const RecipeChange change{key, value_in(old, key), value_in(present, key)};
      const bool is_known = std::any_of(changes.begin(), changes.end(),
                                        [&](const RecipeChange& c) { return c.key == change.key; });
      if (change.before != change.now && !is_known) changes.push_back(change);
    }
  return changes;
}

std::string text_of(const RecipeChange& change) {
  return fmt::format("{}: {} -> {}", change.key, change.before, change.now);
}

std::string difference_text(const Recipe& before, const Recipe& now) {
  std::vector<std::string> all;
  for (const RecipeChange& change : changes(before, now)) all.push_back(text_of(change));
  const std::string text =
      fmt::format("{}, but this run has {}", on_one_line(before.name()), on_one_line(now.name()));
  if (all.empty()) return text;
  return fmt::format("{} ({})", text, first_of(all, kMostShown));
}

}  // namespace ng
