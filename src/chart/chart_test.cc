#include "chart/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

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

}  // namespace
}  // namespace ng::chart
