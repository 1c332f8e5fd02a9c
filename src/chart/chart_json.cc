#include "chart/chart_json.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace ng::chart {
namespace {

constexpr size_t kMostSeries = 8;  // colours
constexpr const char* kKinds[] = {"bars", "points", "lines"};

/// A list under a key; empty where there is none.
template <class Item, class Of>
std::vector<Item> list_of(const JsonObject& object, const char* key, const char* expected,
                          const Of& of) {
  std::vector<Item> items;
  if (!object.has(key)) return items;
  const Json& list = object.at(key);
  if (!list.is_array()) object.refuse(key, brief(list), expected);
  for (const Json& item : list) items.push_back(of(item));
  return items;
}

std::vector<double> numbers_of(const JsonObject& object, const char* key) {
  constexpr const char* kExpected = "a list of numbers and null";
  return list_of<double>(object, key, kExpected, [&](const Json& item) {
    if (!item.is_number() && !item.is_null()) object.refuse(key, brief(item), kExpected);
    return item.is_null() ? NAN : item.get<double>();
  });
}

std::vector<std::string> texts_of(const JsonObject& object, const char* key) {
  constexpr const char* kExpected = "a list of texts";
  return list_of<std::string>(object, key, kExpected, [&](const Json& item) {
    if (!item.is_string()) object.refuse(key, brief(item), kExpected);
    return item.get<std::string>();
  });
}

Series series_of(const JsonObject& object, size_t places) {
  Series series{.name = object.text("name"),
                .y = numbers_of(object, "y"),
                .error = numbers_of(object, "error"),
                .low = numbers_of(object, "low"),
                .high = numbers_of(object, "high"),
                .no_line = object.boolean_or("no_line", false),
                .joined = object.boolean_or("joined", false)};
  for (const auto& [key, values] : {std::pair{"y", &series.y},
                                    {"error", &series.error},
                                    {"low", &series.low},
                                    {"high", &series.high}})
    if (values->size() != places && (!values->empty() || key == std::string_view("y")))
      object.refuse(key, fmt::format("{} values", values->size()),
                    fmt::format("{}, one for each place", places));
  return series;
}

Chart::Kind kind_of(const JsonObject& object) {
  const std::string kind = object.text("kind");
  const auto found = std::ranges::find(kKinds, kind);
  if (found == std::end(kKinds)) object.refuse("kind", brief(kind), "bars, points or lines");
  return static_cast<Chart::Kind>(found - kKinds);
}

/// What svg_of() takes for granted.
void check(const Chart& chart, const JsonObject& object) {
  const auto is_place = [&](double x) { return std::isfinite(x) && (!chart.log_x || x > 0); };
  if (has_groups(chart) && chart.categories.empty())
    object.refuse("categories", "none", "a name for each group");
  if (!has_groups(chart) &&
      (chart.x.size() < 2 || !std::ranges::is_sorted(chart.x) ||
       !std::ranges::all_of(chart.x, is_place) || chart.x.front() == chart.x.back()))
    object.refuse("x", fmt::format("{} numbers", chart.x.size()),
                  "two or more, ascending; above 0 where log_x");
  if (chart.log_y && (chart.kind == Chart::Kind::bars || chart.strip > 0))
    object.refuse("log_y", "true beside what reaches 0", "false for bars and with a strip");
  const auto has_y = [&](const Series& series) {
    return std::ranges::any_of(
        series.y, [&](double y) { return std::isfinite(y) && (!chart.log_y || y > 0); });
  };
  if (chart.series.size() > kMostSeries || std::ranges::none_of(chart.series, has_y))
    object.refuse("series", fmt::format("{} of them", chart.series.size()),
                  fmt::format("1 to {} with something to draw", kMostSeries));
}

}  // namespace

Chart chart_of(const Json& json, const std::string& place) {
  const JsonObject object(json, place);
  Chart chart{.kind = kind_of(object),
              .caption = object.text_or("caption", ""),
              .x_label = object.text_or("x_label", ""),
              .y_label = object.text_or("y_label", ""),
              .categories = texts_of(object, "categories"),
              .x = numbers_of(object, "x"),
              .labels = texts_of(object, "labels"),
              .log_x = object.boolean_or("log_x", false),
              .from_zero = object.boolean_or("from_zero", true),
              .log_y = object.boolean_or("log_y", false),
              .strip = object.number_or("strip", 0, HUGE_VAL, 0)};
  const size_t places = has_groups(chart) ? chart.categories.size() : chart.x.size();
  const Json& series = object.at("series", "a list of series");
  if (!series.is_array()) object.refuse("series", brief(series), "a list of series");
  for (size_t i = 0; i < series.size(); ++i)
    chart.series.push_back(
        series_of(JsonObject(series[i], place, fmt::format("series[{}].", i)), places));
  check(chart, object);
  return chart;
}

}  // namespace ng::chart
