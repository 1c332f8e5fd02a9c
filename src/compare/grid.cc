#include "compare/grid.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "base/error.h"

namespace ng {
namespace {

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

[[noreturn]] void refuse_axis(const std::string& axis, const std::string& problem,
                              const std::string& remedy) {
  throw Error({.place = "--grid", .key = axis.substr(0, 60), .problem = problem, .remedy = remedy});
}

// At commas outside of brackets and quotes.
std::vector<std::string> values_of(std::string_view list) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : list) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += (c == '[' || c == '{' ? 1 : 0) - (c == ']' || c == '}' ? 1 : 0);
    if (c == ',' && depth == 0 && !quoted)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

Axis axis_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse_axis(text, "no key with values", "KEY=VALUE,VALUE, e.g. train.lr=1e-3,2e-3");
  Axis axis{text.substr(0, equals), values_of(std::string_view(text).substr(equals + 1))};
  for (const auto& [key, flag] : {std::pair{"recipe", "--recipes"}, std::pair{"seed", "--seeds"},
                                  std::pair{"twin", "the twin that each point has"}})
    if (axis.key == key) refuse_axis(text, "is no axis of a grid", flag);
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty()) refuse_axis(text, "an empty value", "a value between two commas");
    if (!seen.insert(value).second) refuse_axis(text, value + " is named twice", "each value once");
  }
  return axis;
}

}  // namespace

std::vector<GridSettings> grid_settings(const std::vector<std::string>& axes) {
  std::vector<GridSettings> all(1);
  std::set<std::string> keys;
  for (const std::string& text : axes) {
    const Axis axis = axis_of(text);
    if (!keys.insert(axis.key).second)
      refuse_axis(text, "the key is given twice", "all its values in one --grid");
    std::vector<GridSettings> longer;
    for (const GridSettings& settings : all)
      for (const std::string& value : axis.values) {
        longer.push_back(settings);
        longer.back().emplace_back(axis.key, value);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<GridPoint> grid_points(
    const std::vector<std::string>& axes,
    const std::function<RunConfig(const std::vector<std::string>&)>& load) {
  std::vector<GridPoint> points;
  for (const GridSettings& settings : grid_settings(axes)) {
    GridPoint point{settings, load(words_of(settings))};
    for (const GridPoint& other : points)
      if (other.config.resolved_toml() == point.config.resolved_toml() ||
          folder_name(other.settings) == folder_name(settings))
        refuse_axis(text_of(settings), "is the same run as " + text_of(other.settings),
                    "values that differ");
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<std::string> words_of(const GridSettings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) words.push_back(fmt::format("{}={}", key, value));
  return words;
}

std::string text_of(const GridSettings& settings) {
  return fmt::format("{}", fmt::join(words_of(settings), ", "));
}

std::string folder_name(const GridSettings& settings) {
  std::string name = fmt::format("{}", fmt::join(words_of(settings), ","));
  constexpr std::string_view kPlain = "=,.+-_";
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && kPlain.find(c) == kPlain.npos) c = '_';
  return name;
}

}  // namespace ng
