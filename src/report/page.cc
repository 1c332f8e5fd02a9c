#include "report/page.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/version.h"
#include "report/assets.h"

namespace ng::report {
namespace {

constexpr std::string_view kOpen = "{{", kClose = "}}";  // of a part's name in page.html

// Six digits are more than a screen shows. JSON has no NaN: null.
Json number(double value, int digits = 6) {
  if (!std::isfinite(value)) return {};
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

Json numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

Json json_of(const Line& line) {
  constexpr std::array<const char*, 3> kStyles = {"plain", "faint", "marked"};
  NG_CHECK(line.x.size() == line.y.size() && line.low.size() == line.high.size() &&
               (line.low.empty() || line.low.size() == line.y.size()),
           line.name, line.x.size(), line.y.size(), line.low.size(), line.high.size());
  Json json = {{"name", line.name},
               {"color", line.color},
               {"style", kStyles[static_cast<size_t>(line.style)]},
               {"x", numbers(line.x)},
               {"y", numbers(line.y)}};
  if (line.low.empty()) return json;
  json["low"] = numbers(line.low);
  json["high"] = numbers(line.high);
  return json;
}

Json json_of(const LineChart& chart);
Json json_of(const HeatMap& map);
Json json_of(const GridHistogram& histogram);
Json json_of(const ChartChoice& choice);
Json json_of(const RangeChart::Item& item);
Json json_of(const RangeChart& chart);
Json json_of(const Bar& bar);
Json json_of(const Bars& bars);
Json json_of(const Listing& listing);
Json json_of(const Mark& mark);
Json json_of(const Section& section);

template <class Item>
Json array_of(const std::vector<Item>& items) {
  Json json = Json::array();
  for (const Item& item : items) json.push_back(json_of(item));
  return json;
}

Json json_of(const LineChart& chart) {
  constexpr std::array<const char*, 3> kUnits = {"number", "share", "tiny"};
  return {{"title", chart.title}, {"y_label", chart.y_label},
          {"wide", chart.wide},   {"unit", kUnits[static_cast<size_t>(chart.unit)]},
          {"log_y", chart.log_y}, {"lines", array_of(chart.lines)}};
}

Json json_of(const HeatMap& map) {
  NG_CHECK(map.values.size() == static_cast<size_t>(map.rows * map.cols), map.title, map.rows,
           map.cols, map.values.size());
  Json values = Json::array();
  for (const float value : map.values) values.push_back(number(value, 4));  // colours tell fewer
  return {{"title", map.title},
          {"note", map.note},
          {"rows", map.rows},
          {"cols", map.cols},
          {"values", std::move(values)}};
}

Json json_of(const GridHistogram& histogram) {
  Json rows = Json::array();
  for (const GridHistogram::Row& row : histogram.rows) {
    NG_CHECK(row.states.size() == histogram.counts.size(), row.name, row.states);
    rows.push_back({row.name, row.states});
  }
  return {{"title", histogram.title},   {"note", histogram.note},   {"top", histogram.top},
          {"counts", histogram.counts}, {"below", histogram.below}, {"rows", rows}};
}

Json json_of(const ChartChoice& choice) {
  Json json = {{"name", choice.name}, {"charts", array_of(choice.charts)}};
  if (!choice.histograms.empty()) json["histograms"] = array_of(choice.histograms);
  const HeatMaps& maps = choice.maps;
  if (!maps.maps.empty())
    json["maps"] = {{"label", maps.label},
                    {"low", number(maps.low)},
                    {"high", number(maps.high)},
                    {"maps", array_of(maps.maps)}};
  return json;
}

Json json_of(const RangeChart::Item& item) {
  return {{"name", item.name},       {"kind", item.kind},         {"group", item.group},
          {"color", item.color},     {"mean", number(item.mean)}, {"sd", number(item.sd)},
          {"low", number(item.low)}, {"high", number(item.high)}, {"floor", number(item.floor)}};
}

Json json_of(const RangeChart& chart) {
  return {{"title", chart.title},
          {"y_label", chart.y_label},
          {"note", chart.note},
          {"levels", numbers(chart.levels)},
          {"spans_levels", chart.spans_levels},
          {"items", array_of(chart.items)}};
}

Json json_of(const Bar& bar) {
  return {{"name", bar.name}, {"value", number(bar.value)}, {"text", bar.text}};
}

Json json_of(const Bars& bars) { return {{"title", bars.title}, {"bars", array_of(bars.bars)}}; }

Json json_of(const Listing& listing) { return {{"title", listing.title}, {"text", listing.text}}; }

Json json_of(const Table& table) {
  Json rows = Json::array();
  for (const std::vector<Cell>& row : table.rows) {
    rows.push_back(Json::array());
    for (const Cell& cell : row) {
      rows.back().push_back({{"text", cell.text}});
      if (!cell.link.empty()) rows.back().back()["link"] = cell.link;
    }
  }
  return {{"heading", table.heading}, {"rows", rows}, {"is_of_words", table.is_of_words}};
}

Json json_of(const Mark& mark) { return {{"step", mark.step}, {"lines", mark.lines}}; }

Json json_of(const Section& section) {
  return {{"heading", section.heading},           {"note", section.note},
          {"pictures", section.pictures},         {"charts", array_of(section.charts)},
          {"ranges", array_of(section.ranges)},   {"choice_label", section.choice_label},
          {"choices", array_of(section.choices)}, {"bars", array_of(section.bars)},
          {"table", json_of(section.table)},      {"listings", array_of(section.listings)}};
}

// Neither "</script>" nor "<!--" can end the block that holds the text.
std::string inside_script(const Json& json) {
  const std::string text = json_text(json);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

Line line_of(const std::string& name, int color, const Series& series) {
  Line line{.name = name, .color = color, .style = Line::Style::plain, .x = {}, .y = {}};
  const bool has_band = series.values_per_bucket() > 1;
  for (const Bucket& bucket : series.buckets()) {
    line.x.push_back(bucket.step());
    line.y.push_back(bucket.mean());
    if (!has_band) continue;
    line.low.push_back(bucket.finite > 0 ? bucket.low : NAN);
    line.high.push_back(bucket.finite > 0 ? bucket.high : NAN);
  }
  return line;
}

Json json_of(const Page& page) {
  Json facts = Json::array();
  for (const auto& [name, value] : page.facts) facts.push_back({name, value});
  return {{"title", page.title},
          {"subtitle", page.subtitle},
          {"facts", facts},
          {"sections", array_of(page.sections)},
          {"marks", array_of(page.marks)},
          {"made_by", fmt::format("NarrowGauge {} ({})", version(), compiler())}};
}

std::string_view html_begin() { return kPageHtml.substr(0, kPageHtml.find(kOpen)); }

std::string html_of(const Page& page) {
  const std::string data = inside_script(json_of(page));
  const std::map<std::string_view, std::string_view> parts = {
      {"style", kPageCss},     {"figures", kFiguresJs},        {"script", kPageJs},
      {"library", kDygraphJs}, {"library style", kDygraphCss}, {"library licence", kDygraphLicence},
      {"data", data}};
  std::string html;
  std::string_view rest = kPageHtml;
  for (size_t at = rest.find(kOpen); at != std::string_view::npos; at = rest.find(kOpen)) {
    html += rest.substr(0, at);
    rest.remove_prefix(at + kOpen.size());
    const size_t end = rest.find(kClose);
    const auto part = parts.find(rest.substr(0, end));
    NG_CHECK(part != parts.end(), rest.substr(0, end));
    html += part->second;
    rest.remove_prefix(end + kClose.size());
  }
  html += rest;
  return html;
}

}  // namespace ng::report
