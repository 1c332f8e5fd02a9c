// Against scipy 1.17.1 and numpy 2.4.6, computed once: ttest_rel, and the two-way layout by hand
// with t.ppf and t.sf.
#include "compare/paired.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng {
namespace {

using Losses = std::vector<std::vector<double>>;
const Losses kLosses = {{1.5560, 1.5431, 1.5622, 1.5507},
                        {1.5772, 1.5688, 1.5801, 1.5719},
                        {1.5549, 1.5502, 1.5588, 1.5533}};

void expect_interval(const PairedDifference& have, double mean, double half, double p) {
  EXPECT_NEAR(have.mean, mean, 1e-12);
  EXPECT_NEAR(have.half, half, 1e-12);
  EXPECT_NEAR(have.p, p, 1e-9 * p);
}

TEST(PairedTable, OfTwoRecipesIsThePairedTTest) {
  const PairedTable table = paired_table(Losses{kLosses[0], kLosses[1]});
  expect_interval(table.differences[1], 0.0215, 0.005096884235160335, 0.0008936721503907449);
  EXPECT_NEAR(table.differences[1].sd, table.scatter.sd, 1e-12);
  EXPECT_EQ(table.scatter.degrees, 3);
  EXPECT_EQ(table.differences[0].mean, 0);
  EXPECT_TRUE(std::isnan(table.differences[0].p));
}

TEST(PairedTable, OfSeveralPoolsTheDeviation) {
  const PairedTable table = paired_table(kLosses);
  EXPECT_TRUE(table.scatter.is_pooled);
  EXPECT_NEAR(table.scatter.sd, 0.0034107672646097654, 1e-12);
  EXPECT_EQ(table.scatter.degrees, 6);
  expect_interval(table.differences[1], 0.0215, 0.004172923420635488, 1.5252545627542058e-05);
  expect_interval(table.differences[2], 0.0013, 0.004172923420635488, 0.47477577481846495);
}

TEST(PairedTable, WhereOneScattersUnlikeTheOthersEachHasItsOwnDeviation) {
  Losses losses = kLosses;
  losses.push_back({1.70, 1.52, 1.61, 1.40});
  const PairedTable table = paired_table(losses);
  EXPECT_FALSE(table.scatter.is_pooled);
  EXPECT_EQ(table.scatter.unlike, 3);
  expect_interval(table.differences[1], 0.0215, 0.005096884235160335, 0.0008936721503907449);
  expect_interval(table.differences[2], 0.0013, 0.0073023101152214255, 0.6106315298485772);
  expect_interval(table.differences[3], 0.0045, 0.1974312758371458, 0.9467401610908012);
}

TEST(PairedTable, LeavesOutWhatDivergedAndWhatWasNotRun) {
  Losses losses = kLosses;
  losses[2][1] = PairedDifference::kNan;
  const PairedTable diverged = paired_table(losses);
  EXPECT_TRUE(std::isnan(diverged.differences[2].mean));
  expect_interval(diverged.differences[1], 0.0215, 0.005096884235160335, 0.0008936721503907449);

  losses = kLosses;
  losses.push_back({1.56, kNotRun, kNotRun, kNotRun});
  const PairedTable unfinished = paired_table(losses);
  EXPECT_EQ(unfinished.differences[3].pairs, 1);
  EXPECT_NEAR(unfinished.differences[3].mean, 0.004, 1e-12);
  EXPECT_TRUE(std::isnan(unfinished.differences[3].half)) << "one pair, and no seed of all four";
  EXPECT_NEAR(unfinished.differences[1].half, 0.005096884235160335, 1e-12);
}

TEST(PairedTable, OfOneSeedHasNoInterval) {
  const PairedTable table = paired_table(Losses{{1.5}, {1.6}});
  EXPECT_NEAR(table.differences[1].mean, 0.1, 1e-12);
  EXPECT_TRUE(std::isnan(table.differences[1].half));
  EXPECT_TRUE(std::isnan(table.differences[1].p));
}

TEST(PairedTable, OfEqualRunsIsSure) {
  const PairedTable table = paired_table(Losses{{1, 2}, {1, 2}});
  EXPECT_EQ(table.differences[1].half, 0);
  EXPECT_EQ(table.differences[1].p, 1);
}

}  // namespace
}  // namespace ng
