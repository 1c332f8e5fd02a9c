#include "report/stretch_section.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace ng::report {
namespace {

Stretch stretch(int64_t first, const char* changed) {
  return {.first = first, .settings = Json::object(), .changed = Json::parse(changed)};
}

TEST(StretchSection, HasNothingToSayOfOneStretchOrTheSameSettings) {
  const std::vector<Stretch> one = {stretch(0, "null")};
  EXPECT_EQ(resumed_text(one), "");
  EXPECT_TRUE(marks_of(one, 100).empty());
  const std::vector<Stretch> same = {stretch(0, "null"), stretch(30, "{}")};
  EXPECT_EQ(resumed_text(same), "1 time, with the same settings");
  EXPECT_TRUE(marks_of(same, 100).empty());
  EXPECT_TRUE(stretch_section(same).table.rows.empty());
}

TEST(StretchSection, NamesEachKeyWithBothValues) {
  const std::vector<Stretch> all = {stretch(0, "null"), stretch(30, "{}"),
                                    stretch(1200, R"({"train.clip": {"before": 1, "now": 2},
                        "recipe.override[2]": {"before": "{a = \"b\"}", "now": "bf16"},
                        "recipe.override[1].layers": {"before": null, "now": ["*"]}})")};
  EXPECT_EQ(resumed_text(all),
            "2 times, with other settings after step 1,200 (table below): what is said here holds "
            "since then");
  const std::vector<Mark> marks = marks_of(all, 2000);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].step, 1200.5);
  EXPECT_EQ(marks[0].lines, (std::vector<std::string>{"recipe.override[1].layers: none → [\"*\"]",
                                                      "recipe.override[2]: {a = \"b\"} → bf16",
                                                      "train.clip: 1 → 2"}));
  const Table table = stretch_section(all).table;
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][2].text, "none");
  const auto& clip = table.rows[2];
  EXPECT_EQ(clip[0].text + "|" + clip[1].text + "|" + clip[2].text + "|" + clip[3].text,
            "1,200|train.clip|1|2");
}

TEST(StretchSection, MarksWherePhasesBeginInTheirStretch) {
  const auto settings = [](double start, int64_t steps) {
    return Json{{"train.steps", steps},
                {"recipe.phase[1].start", start},
                {"recipe.phase[1].linear.fprop.input", "bf16"},
                {"recipe.phase[1].linear.fprop.weight", "bf16"},
                {"recipe.phase[2].start", 0.95},
                {"recipe.phase[2].compute", "fp32"}};
  };
  const std::vector<Stretch> one = {{.first = 0, .settings = settings(0.07, 100), .changed = {}}};
  const std::vector<Mark> marks = marks_of(one, 100);
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].step, 7.5) << "the eighth step is the phase's first";
  EXPECT_EQ(marks[0].lines,
            (std::vector<std::string>{"phase 1 of the recipe: linear.fprop.input = bf16",
                                      "linear.fprop.weight = bf16"}));
  EXPECT_EQ(marks[1].step, 95.5);
  // Resumed after step 50 with twice the steps: what would have begun at 95 does at 190.
  std::vector<Stretch> two = one;
  two.push_back({.first = 50, .settings = settings(0.07, 200), .changed = {}});
  const std::vector<Mark> both = marks_of(two, 200);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].step, 7.5);
  EXPECT_EQ(both[1].step, 190.5);
  two[1].settings["train.steps"] = "2 epochs";
  EXPECT_EQ(marks_of(two, 400)[1].step, 380.5);
}

}  // namespace
}  // namespace ng::report
