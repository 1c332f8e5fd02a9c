// Spikes and ends of curves that were made for it.
#include "study/stability_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ng::study {
namespace {

using Curve = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LossSpikes, AreCountedOnAFlatCurve) {
  Curve losses(40, 2.0);
  EXPECT_EQ(loss_spikes(losses, 1).count, 0);
  EXPECT_EQ(loss_spikes(losses, 1).largest, 0);
  losses[20] = 3;
  EXPECT_EQ(loss_spikes(losses, 1).count, 1);
  EXPECT_EQ(loss_spikes(losses, 1).largest, 1);
  // The average at step 21 is 2 + 1/16.
  losses[21] = 3;
  EXPECT_EQ(loss_spikes(losses, 1).count, 2);
  EXPECT_EQ(loss_spikes(losses, 1).largest, 1);
  losses[21] = 2 + 1.0 / 16;
  EXPECT_EQ(loss_spikes(losses, 1).count, 1);
}

TEST(LossSpikes, BeginAtTheStepAskedFor) {
  Curve losses(40, 2.0);
  losses[5] = 3;
  EXPECT_EQ(loss_spikes(losses, 5).count, 1);
  EXPECT_EQ(loss_spikes(losses, 6).count, 0);
  EXPECT_EQ(loss_spikes(losses, 40).count, 0);
  EXPECT_EQ(loss_spikes({}, 0).count, 0);
}

// Excesses alternate between about ±1/8: median |e - median e| = 0.126, five deviations are 0.94.
TEST(LossSpikes, AreMeasuredAgainstTheCurvesOwnNoise) {
  Curve losses;
  for (int t = 0; t < 64; ++t) losses.push_back(t % 2 == 0 ? 2 - 0.125 : 2 + 0.125);
  losses[40] = 2.7;
  const LossSpikes within = loss_spikes(losses, 4);
  EXPECT_EQ(within.count, 0);
  EXPECT_NEAR(within.largest, 0.7057, 1e-4);
  EXPECT_NEAR(within.deviation, 0.18724, 1e-5);
  losses[40] = 3.0;
  EXPECT_EQ(loss_spikes(losses, 4).count, 1);
}

TEST(LossSpikes, AreNoFallingLosses) {
  Curve losses;
  for (int t = 0; t < 50; ++t) losses.push_back(4.0 - 0.0625 * t);
  EXPECT_EQ(loss_spikes(losses, 0).count, 0);
  EXPECT_EQ(loss_spikes(losses, 0).largest, 0);
}

TEST(LossSpikes, LeaveOutWhatIsNotFinite) {
  Curve losses(40, 2.0), gaps;
  losses[20] = 3;
  for (const double loss : losses) {
    gaps.push_back(loss);
    gaps.push_back(gaps.size() % 4 == 1 ? kNan : HUGE_VAL);
  }
  EXPECT_EQ(loss_spikes(gaps, 1).count, 1);
  EXPECT_EQ(loss_spikes(gaps, 1).largest, 1);
}

TEST(FinalLoss, IsTheMeanOfTheLastTenth) {
  Curve losses(18, 5.0);
  losses.push_back(1);
  losses.push_back(2);
  EXPECT_EQ(final_loss(losses), 1.5);
  EXPECT_EQ(final_loss(Curve{4, 3}), 3);
  EXPECT_TRUE(std::isnan(final_loss(Curve{})));
  losses.back() = kNan;
  EXPECT_TRUE(std::isnan(final_loss(losses)));
}

TEST(ExceedsStart, LooksBehindTheWarmUpOnly) {
  EXPECT_TRUE(exceeds_start(Curve{2, 3, 1, 2.5}, 2));
  EXPECT_FALSE(exceeds_start(Curve{2, 3, 1, 2}, 2));
  EXPECT_FALSE(exceeds_start(Curve{2, 3}, 2));
  EXPECT_FALSE(exceeds_start(Curve{}, 0));
}

TEST(LargestOverMedian, IsARatio) {
  EXPECT_EQ(largest_over_median(Curve{1, 2, 8}), 4);
  EXPECT_TRUE(std::isnan(largest_over_median(Curve{})));
}

}  // namespace
}  // namespace ng::study
