#include "report/page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "report/charts.h"

namespace ng::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Line line(std::vector<double> x, std::vector<double> y) {
  return {.name = "a", .x = std::move(x), .y = std::move(y)};
}

// The JSON that a page's script reads.
Json data_of(const std::string& html) {
  const std::string open = "id=\"data\">";
  const size_t begin = html.find(open) + open.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

TEST(Page, HoldsItsDataWhateverTheySay) {
  Page page;
  page.title = "</script><script>alert(1)</script><!-- {{data}} \xFF";
  page.facts = {{"name", "\"quoted\""}};
  LineChart chart{.title = "t", .y_label = "y"};
  chart.lines = {line({1, 2, 3}, {0.1234567890123, kNaN, 1e-30})};
  page.sections = {{.heading = "h", .charts = {chart}}};
  const Json data = data_of(html_of(page));
  EXPECT_EQ(data["title"], "</script><script>alert(1)</script><!-- {{data}} \xEF\xBF\xBD");
  EXPECT_EQ(data["facts"][0][1], "\"quoted\"");
  EXPECT_EQ(data["sections"][0]["charts"][0]["lines"][0]["y"],
            Json::parse("[0.123457, null, 1e-30]"));
}

TEST(Page, HoldsMapsAndRanges) {
  Page page;
  const HeatMap map{.title = "m", .rows = 1, .cols = 3, .values = {1.23456f, 2, NAN}};
  const HeatMaps maps{.label = "bits", .low = 1, .high = 2, .maps = {map}};
  RangeChart ranges{.title = "r", .y_label = "bits"};
  ranges.levels = {5};
  ranges.items = {{.name = "a", .kind = "k", .group = "0", .mean = 2, .sd = kNaN, .low = 1}};
  page.sections = {{.heading = "h",
                    .ranges = {ranges},
                    .choices = {{.name = "with", .maps = maps}, {.name = "without"}}}};
  const Json section = data_of(html_of(page))["sections"][0];
  EXPECT_EQ(section["choices"][0]["maps"],
            Json::parse(R"({"label": "bits", "low": 1.0, "high": 2.0, "maps": [{"title": "m",
                "note": "", "rows": 1, "cols": 3, "values": [1.235, 2.0, null]}]})"));
  EXPECT_FALSE(section["choices"][1].contains("maps"));
  EXPECT_EQ(section["ranges"][0]["levels"], Json::parse("[5.0]"));
  EXPECT_EQ(section["ranges"][0]["items"][0], Json::parse(R"({"name": "a", "kind": "k",
      "group": "0", "color": 0, "mean": 2.0, "sd": null, "low": 1.0, "high": 0.0,
      "floor": null})"));
}

TEST(Page, AsksForNothingFromOutside) {
  const std::string html = html_of(Page());
  for (const char* word : {" src=", "<link", "@import", "url(", "sourceMappingURL"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  EXPECT_NE(html.find("Permission is hereby granted"), std::string::npos) << "the licence";
}

TEST(Line, OfABucketedSeriesHasABand) {
  Series series(2);
  for (int64_t step = 1; step <= 4; ++step) series.add(step, static_cast<double>(step * step));
  const Line joined = line_of("a", 3, series);
  EXPECT_EQ(joined.x, (std::vector<double>{1.5, 3.5}));
  EXPECT_EQ(joined.y, (std::vector<double>{2.5, 12.5}));
  EXPECT_EQ(joined.low, (std::vector<double>{1, 9}));
  EXPECT_EQ(joined.high, (std::vector<double>{4, 16}));
}

TEST(MeanOf, BandsGoFromTheLowestToTheHighest) {
  const std::vector<Line> lines = {line({1, 2}, {1, 5}), line({1, 2, 3}, {3, kNaN, 7})};
  const Line mean = mean_of("m", 0, lines);
  EXPECT_EQ(mean.x, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(mean.y, (std::vector<double>{2, 5, 7}));
  EXPECT_EQ(mean.low, (std::vector<double>{1, 5, 7}));
  EXPECT_EQ(mean.high, (std::vector<double>{3, 5, 7}));
  EXPECT_TRUE(mean_of("m", 0, std::span(lines).first(1)).low.empty()) << "one line has no band";
}

TEST(Smoothed, FollowsAndLeavesShortLinesAlone) {
  EXPECT_EQ(smoothed(line({1, 2}, {1, 9})).y, (std::vector<double>{1, 9}));
  std::vector<double> x, y;
  for (int i = 0; i < 400; ++i) {
    x.push_back(i);
    y.push_back(i < 200 ? (i % 2 == 0 ? 1 : 3) : 10);
  }
  y[7] = kNaN;
  const Line smooth = smoothed(line(x, y));
  EXPECT_EQ(smooth.y[0], 1.0) << "no start from 0";
  EXPECT_TRUE(std::isnan(smooth.y[7]));
  EXPECT_NEAR(smooth.y[100], 2, 0.2);
  EXPECT_NEAR(smooth.y[199], 6, 0.5) << "neither before nor behind";
  EXPECT_EQ(smooth.y[399], 10.0);
}

}  // namespace
}  // namespace ng::report
