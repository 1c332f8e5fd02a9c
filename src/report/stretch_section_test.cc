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
  EXPECT_TRUE(change_marks(one).empty());
  const std::vector<Stretch> same = {stretch(0, "null"), stretch(30, "{}")};
  EXPECT_EQ(resumed_text(same), "1 time, with the same settings");
  EXPECT_TRUE(change_marks(same).empty());
  EXPECT_TRUE(stretch_section(same).table.rows.empty());
}

TEST(StretchSection, NamesEachKeyWithBothValues) {
  const std::vector<Stretch> all = {stretch(0, "null"), stretch(30, "{}"),
                                    stretch(1200, R"({"train.clip": {"before": 1, "now": 2},
                        "recipe.override[1].layers": {"before": null, "now": ["*"]}})")};
  EXPECT_EQ(resumed_text(all),
            "2 times, with other settings after step 1,200 (table below): what is said here holds "
            "since then");
  const std::vector<Mark> marks = change_marks(all);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].step, 1200.5);
  EXPECT_EQ(marks[0].text, "recipe.override[1].layers: none → [\"*\"] and 1 more");
  const Table table = stretch_section(all).table;
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][2].text, "none");
  const auto& clip = table.rows[1];
  EXPECT_EQ(clip[0].text + "|" + clip[1].text + "|" + clip[2].text + "|" + clip[3].text,
            "1,200|train.clip|1|2");
}

}  // namespace
}  // namespace ng::report
