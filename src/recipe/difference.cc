// What a user is told who goes on with another recipe than a run began with.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostShown = 3;

/// "none" where that recipe says nothing of the key.
std::string value_in(const Values& values, const std::string& key) {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == key; });
  return found == values.end() ? "none" : on_one_line(found->second);
}

}  // namespace

std::string difference_text(const Recipe& before, const Recipe& now) {
  const Values old = before.values(), present = now.values();
  std::vector<std::string> keys, shown;
  for (const Values* values : {&old, &present})
    for (const auto& [key, value] : *values)
      if (value_in(old, key) != value_in(present, key) &&
          std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
  for (const std::string& key : keys)
    if (shown.size() < kMostShown)
      shown.push_back(fmt::format("{}: {} -> {}", key, value_in(old, key), value_in(present, key)));
  std::string text =
      fmt::format("{}, but this run has {}", on_one_line(before.name()), on_one_line(now.name()));
  if (keys.empty()) return text;
  text += fmt::format(" ({}", fmt::join(shown, ", "));
  if (keys.size() > shown.size()) text += fmt::format(" and {} more", keys.size() - shown.size());
  return text + ")";
}

}  // namespace ng
