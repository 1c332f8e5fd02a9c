#include "chart/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "chart/chart_json.h"
#include "chart/parts.h"

namespace ng::chart {
namespace {

// Every tag closed in order, attributes quoted: what an XML reader asks for.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag(R"re(<(/?)([a-z]+)((?: [a-zA-Z0-9:-]+="[^"<>]*")*) ?(/?)>)re");
  size_t tags = 0;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator();
       ++it, ++tags) {
    const std::smatch& m = *it;
    if (m[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), m[2].str());
      open.pop_back();
    } else if (m[4].length() == 0) {
      open.push_back(m[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(tags, static_cast<size_t>(std::count(svg.begin(), svg.end(), '<')));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Chart bars() {
  return {.kind = Chart::Kind::bars,
          .caption = "a < b & \"c\"",
          .y_label = "dB",
          .categories = {"one", "two"},
          .expected_name = "expected",
          .series = {{.name = "up", .y = {1, NAN}, .expected = {1.5, NAN}},
                     {.name = "down", .y = {-2, 0.5}, .error = {0.1, NAN}}}};
}

TEST(Chart, BarsAreWellFormedAndLeaveGaps) {
  const std::string svg = svg_of(bars());
  expect_well_formed(svg);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<rect"), 2 + 3u);  // legend, and one bar is missing
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, UsesNothingFromOutside) {
  const std::string svg = svg_of(bars());
  EXPECT_EQ(count_of(svg, "http"), 1u);  // the name space
  EXPECT_EQ(svg.find("href"), std::string::npos);
  EXPECT_EQ(svg.find("url("), std::string::npos);
}

TEST(Chart, LinesBreakAtGapsAndMarkFewPoints) {
  Chart chart{.kind = Chart::Kind::lines,
              .x = {16, 32, 64, 128},
              .log_x = true,
              .series = {{.name = "found", .y = {1, NAN, 2, 3}},
                         {.name = "reference", .y = {1, 2, 3, 4}, .reference = true}}};
  const std::string svg = svg_of(chart);
  expect_well_formed(svg);
  const std::regex path(R"re(d="(M[^"]*)")re");
  std::smatch m;
  ASSERT_TRUE(std::regex_search(svg, m, path));
  EXPECT_EQ(count_of(m[1].str(), "M"), 2u);
  EXPECT_EQ(count_of(svg, "<circle"), 3 + 1u);  // points, legend
}

Chart powers() {
  return {.kind = Chart::Kind::lines,
          .caption = "panel",
          .x = {1e-4, 1e-3, 1e-2, 1e-1},
          .x_ticks = {1e-4, 1e-2},
          .log_x = true,
          .log_y = true,
          .series = {{.name = "found", .y = {0, 1e-3, 1, 1e3}}}};
}

// Every decade takes as much room; zero has no place.
TEST(Chart, LogarithmicAxesHaveDecades) {
  const std::string svg = svg_of(powers());
  expect_well_formed(svg);
  for (const char* tick : {">1e-4<", ">1e-2<", ">1e-3<", ">1e0<", ">1e3<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(count_of(svg, "<circle"), 3 + 1u);
  const std::regex path(R"re(d="M[0-9.]+ ([0-9.]+)L[0-9.]+ ([0-9.]+)L[0-9.]+ ([0-9.]+)")re");
  std::smatch m;
  ASSERT_TRUE(std::regex_search(svg, m, path));
  EXPECT_NEAR(std::stod(m[1]) - std::stod(m[2]), std::stod(m[2]) - std::stod(m[3]), 0.21);
}

TEST(Chart, TheLastTickIsWrittenWithinThePicture) {
  Chart chart = powers();
  chart.x = {0.001, 0.5};
  chart.x_ticks = {0.001, 0.5};
  chart.series[0].y = {1, 10};
  const std::string svg = svg_of(chart);
  const std::regex place(R"re(<text x="([0-9.]+)"[^>]*>0.500<)re");
  std::smatch m;
  ASSERT_TRUE(std::regex_search(svg, m, place)) << svg;
  EXPECT_LT(std::stod(m[1]) + 0.5 * text_width("0.500"), 860);
}

TEST(Chart, LimitsLeaveOutWhatLiesBeyond) {
  Chart chart = powers();
  chart.y_high = 10;
  EXPECT_EQ(count_of(svg_of(chart), "<circle"), 2 + 1u);
}

TEST(Chart, PanelsShareALegend) {
  const std::string svg =
      svg_of(Panels{.caption = "all", .charts = {powers(), powers(), powers()}});
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, ">found<"), 1u);
  EXPECT_EQ(count_of(svg, ">panel<"), 3u);
}

TEST(Chart, LongNamesOfGroupsAreTilted) {
  Chart chart = bars();
  EXPECT_EQ(svg_of(chart).find("rotate(-35)"), std::string::npos);
  chart.categories = {std::string(80, 'x'), "two"};
  EXPECT_NE(svg_of(chart).find("rotate(-35)"), std::string::npos);

  chart.categories = {std::string(40, 'x'), "two", "three"};
  const std::string svg = svg_of(chart);
  const std::regex place(R"re(translate\(([0-9.]+) [0-9.]+\) rotate\(-35\))re");
  std::smatch m;
  ASSERT_TRUE(std::regex_search(svg, m, place));
  EXPECT_GT(std::stod(m[1]), 40 * 0.56 * 13 * 0.82) << "the first begins within the picture";

  chart = bars();
  chart.categories = std::vector<std::string>(45, "of many");
  for (Series& series : chart.series) {
    series.y.resize(45, 1);
    series.expected = {};
    series.error = {};
  }
  EXPECT_NE(svg_of(chart).find("rotate(-65)"), std::string::npos);
}

TEST(Chart, TicksAreRoundAndWithin) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  for (const double low : {-3.7, 0.0, 1e-9, 0.3})
    for (const double span : {1e-8, 0.013, 1.0, 97.0, 3e7}) {
      const std::vector<double> ticks = round_ticks(low, low + span, 7);
      EXPECT_GE(ticks.size(), 2u) << low << " " << span;
      EXPECT_LE(ticks.size(), 8u);
      EXPECT_GE(ticks.front(), low - 1e-6 * span);
      EXPECT_LE(ticks.back(), low + span * (1 + 1e-6));
    }
}

TEST(Chart, BandsGoForthAndBack) {
  const Chart chart{
      .x = {1, 10, 100},
      .log_x = true,
      .from_zero = false,
      .series = {{.name = "mean", .y = {2, 3, 4}, .low = {1, 2, 3}, .high = {3, 4, 5}}}};
  const std::string svg = svg_of(chart);
  expect_well_formed(svg);
  const std::regex band(R"re(<path d="M([^"]*)" fill="#0072B2" fill-opacity)re");
  std::smatch m;
  ASSERT_TRUE(std::regex_search(svg, m, band));
  EXPECT_EQ(count_of(m[1].str(), "L"), 5u);
  for (const char* tick : {">1<", ">2<", ">5<", ">10<", ">50<", ">100<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
}

// ---------------------------------------------------------------- out of a file

Chart of_text(const std::string& json) { return chart_of(parse_json(json, "test"), "test"); }

TEST(ChartJson, PointsHaveIntervalsOverAStrip) {
  const std::string svg = svg_of(of_text(R"({"kind": "points", "caption": "c", "strip": 0.5,
      "categories": ["one", "two"], "from_zero": false, "series": [
      {"name": "worse", "y": [1, null], "error": [0.25, null]},
      {"name": "equal", "y": [null, 0]}]})"));
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, "<rect"), 1u);        // the strip
  EXPECT_EQ(count_of(svg, "<circle"), 1 + 1u);  // a point, its legend
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(ChartJson, LabelsStandApart) {
  const std::string svg = svg_of(of_text(R"({"kind": "lines", "x": [1, 1, 2], "from_zero": false,
      "labels": ["a", "b", "c"], "series": [{"name": "s", "y": [1, 1, 2], "no_line": true}]})"));
  expect_well_formed(svg);
  EXPECT_EQ(svg.find("<path"), std::string::npos);
  const std::regex label(R"re(<text x="([0-9.]+)" y="([0-9.]+)" text-anchor="start">([abc])<)re");
  std::set<std::string> places;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), label); it != std::sregex_iterator();
       ++it)
    places.insert((*it)[1].str() + " " + (*it)[2].str());
  EXPECT_EQ(places.size(), 3u);
}

TEST(ChartJson, WhatIsNoPictureIsRefused) {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"({"kind": "pie", "series": []})", "bars, points or lines"},
      {R"({"kind": "lines", "x": [2, 1], "series": []})", "ascending"},
      {R"({"kind": "lines", "x": [1, 1], "series": []})", "ascending"},
      {R"({"kind": "lines", "x": [0, 1], "log_x": true, "series": []})", "above 0"},
      {R"({"kind": "lines", "x": [1, 2], "series": [{"name": "a", "y": [null, null]}]})", "draw"},
      {R"({"kind": "lines", "x": [1, 2], "series": [{"name": "a", "y": [1]}]})", "2, one for each"},
      {R"({"kind": "lines", "x": [1, 2], "series": [{"name": "a", "y": [1, 2], "error": [1]}]})",
       "2, one for each"},
      {R"({"kind": "bars", "categories": ["a"], "log_y": true, "series": []})", "bars"},
      {R"({"kind": "lines", "x": [1, 2], "log_y": true, "strip": 1, "series": []})", "strip"},
      {R"({"kind": "lines", "x": [1, "2"], "series": []})", "a list of numbers"},
      {R"({"kind": "bars", "series": []})", "categories"}};
  for (const auto& [json, word] : kWrong) try {
      (void)of_text(json);
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace ng::chart
