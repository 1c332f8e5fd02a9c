#include "study/report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/version.h"
#include "study/written.h"

namespace ng::study {
namespace {

Report report() {
  Grid grid("errors", "Errors, in \"percent\"", "data, block", {"N(0,1), 16", "other"}, {"a", "b"});
  grid.at(0, 0) = {.found = 2.02, .error = 0.01, .expected = 2};
  grid.at(0, 1).found = 0.5;
  grid.at(1, 1) = {.found = 0.25, .expected = 0};
  Grid curve("curve", "A curve", "x", {"0", "1"}, {"y"});
  curve.at(0, 0).found = 1;
  curve.at(1, 0).found = 2;
  curve.shown = false;
  return {.name = "test",
          .title = "Is 1 < 2?",
          .sections = {{.heading = "First",
                        .paragraphs = {"It is <so>."},
                        .grids = {grid, curve},
                        .charts = {lines_of(curve, {0, 1}, "x", "y"), bars_of(grid, "%")}}}};
}
const Origin kOrigin{.command = "narrowgauge study test --seed 7", .seed = 7};

TEST(Report, CsvHasARecordPerNumberFound) {
  EXPECT_EQ(csv_of(report()),
            "table,row,column,value,standard_error,expected,difference_percent\n"
            "errors,\"N(0,1), 16\",a,2.02,0.01,2,1\n"
            "errors,\"N(0,1), 16\",b,0.5,,,\n"
            "errors,other,b,0.25,,0,\n"
            "curve,0,y,1,,,\n"
            "curve,1,y,2,,,\n");
}

TEST(Report, JsonSaysTheSameAndWhereItIsFrom) {
  const Json json = parse_json(json_of(report(), kOrigin), "test");
  EXPECT_EQ(json["command"], kOrigin.command);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["version"], std::string(version()));
  const Json& value = json["sections"][0]["tables"][0]["values"][0];
  EXPECT_EQ(value["row"], "N(0,1), 16");
  EXPECT_EQ(value["value"], 2.02);
  EXPECT_NEAR(value["difference_percent"].get<double>(), 1, 1e-9);
  EXPECT_FALSE(json["sections"][0]["tables"][0]["values"][1].contains("expected"));
  const std::string odd = json_of(report(), {.command = "study --out \xFF", .seed = 7});
  EXPECT_EQ(parse_json(odd, "test")["command"], "study --out \uFFFD");
}

TEST(Report, PageHoldsEverythingAndNothingFromOutside) {
  const std::string page = page_of(report(), kOrigin);
  for (const char* part : {"Is 1 &lt; 2?", "It is &lt;so&gt;.", "N(0,1), 16", "<svg", "+1.00",
                           "narrowgauge study test --seed 7", "test.csv"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find(version()), std::string::npos);
  for (const char* part : {"<script", "<link", "<img", "@import", "url(", "https:"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST(Report, ShownRowsFollowWhatWasFound) {
  const std::vector<ShownRow> rows = shown_rows(report().sections[0].grids[0]);
  ASSERT_EQ(rows.size(), 4 + 3u);  // errors and expectations only where there are any
  EXPECT_EQ(rows[0].cells, (std::vector<std::string>{"N(0,1), 16", "2.020", "0.5000"}));
  EXPECT_EQ(rows[1].cells[1], "0.01");
  EXPECT_EQ(rows[3].cells[1], "+1.00");
  EXPECT_TRUE(rows[4].is_found);
  EXPECT_EQ(rows[4].cells[1], "");
}

TEST(Report, WritesThreeFiles) {
  const std::string folder = testing::TempDir() + "study_report_test/a/b";
  std::filesystem::remove_all(folder);
  write_report(folder, report(), kOrigin);
  EXPECT_EQ(list_folder(folder), (std::vector<std::string>{"index.html", "test.csv", "test.json"}));
  EXPECT_EQ(read_file(folder + "/test.csv", 1 << 20), csv_of(report()));
}

TEST(Report, AskingForWhatIsNotThereIsRefused) {
  const Grid grid = report().sections[0].grids[0];
  EXPECT_EQ(grid.found("other", "b"), 0.25);
  EXPECT_ANY_THROW((void)grid.found("other", "c"));
  EXPECT_ANY_THROW((void)grid.at(2, 0));
}

TEST(Written, ReferencesAreFilledIn) {
  const std::vector<Grid> grids = report().sections[0].grids;
  EXPECT_EQ(filled_in("{errors[N(0,1), 16][a]:.1f} ± {errors[0][0].error:.2f}, {n} of {all}; "
                      "{curve[1][y] - curve[0][y]:+.0f}",
                      grids, {{"n", 3}, {"all", "four"}}),
            "2.0 ± 0.01, 3 of four; +1");
  for (const char* wrong :
       {"{none}", "{none[0][0]}", "{errors[0][c]}", "{errors[0x][a]}", "{errors[2][a]}", "{n"})
    EXPECT_ANY_THROW((void)filled_in(wrong, grids, {{"n", 3}})) << wrong;
}

TEST(Written, SectionsHaveTheirParagraphs) {
  const Section section = section_of("communication", "scope", {});
  EXPECT_EQ(section.heading, "What this is");
  ASSERT_EQ(section.paragraphs.size(), 2u);
  EXPECT_TRUE(section.paragraphs[0].starts_with("Ranks are simulated in one process: each has"));
  EXPECT_TRUE(section.paragraphs[1].ends_with("does the same to yours."));
  EXPECT_EQ(title_of("noise"), "What noise on weights is, and what a narrow number keeps of it");
  EXPECT_ANY_THROW((void)section_of("communication", "none", {}));
  EXPECT_ANY_THROW((void)title_of("none"));
}

}  // namespace
}  // namespace ng::study
