#include "report/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ng::report {
namespace {

TEST(Series, HoldsEveryValueWhileThereIsRoom) {
  Series series(4);
  for (int64_t step = 1; step <= 4; ++step) series.add(step, static_cast<double>(10 * step));
  ASSERT_EQ(series.buckets().size(), 4u);
  EXPECT_EQ(series.values_per_bucket(), 1);
  EXPECT_EQ(series.buckets()[2].step(), 3.0);
  EXPECT_EQ(series.buckets()[2].mean(), 30.0);
}

TEST(Series, JoinsStepsWhenItIsFull) {
  Series series(4);
  for (int64_t step = 1; step <= 11; ++step) series.add(step, static_cast<double>(step));
  ASSERT_EQ(series.buckets().size(), 3u);  // 1-4, 5-8, 9-11
  EXPECT_EQ(series.values_per_bucket(), 4);
  const Bucket& second = series.buckets()[1];
  EXPECT_EQ(second.first, 5);
  EXPECT_EQ(second.last, 8);
  EXPECT_EQ(second.step(), 6.5);
  EXPECT_EQ(second.mean(), 6.5);
  EXPECT_EQ(second.low, 5.0);
  EXPECT_EQ(second.high, 8.0);
  EXPECT_EQ(series.buckets()[2].count, 3);
}

TEST(Series, OfAnyLengthHasAtMostItsCapacity) {
  Series series(8);
  double sum = 0;
  for (int64_t step = 1; step <= 1000; ++step) {
    series.add(step, std::sin(static_cast<double>(step)));
    ASSERT_LE(series.buckets().size(), 8u);
    if (step > 8) {
      ASSERT_GE(series.buckets().size(), 5u) << step;
    }
  }
  int64_t count = 0;
  for (const Bucket& bucket : series.buckets()) {
    count += bucket.count;
    sum += bucket.sum;
  }
  double want = 0;
  for (int64_t step = 1; step <= 1000; ++step) want += std::sin(static_cast<double>(step));
  EXPECT_EQ(count, 1000);
  EXPECT_NEAR(sum, want, 1e-9);
}

TEST(Series, WhatIsNotFiniteTakesItsPlaceAndNoPart) {
  constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
  Series series(2);
  for (const auto& [step, value] :
       {std::pair{1, kNoValue}, {2, 5.0}, {3, INFINITY}, {4, -INFINITY}, {5, kNaN}})
    series.add(step, value);
  ASSERT_EQ(series.buckets().size(), 2u);
  EXPECT_EQ(series.buckets()[0].mean(), 5.0);
  EXPECT_EQ(series.buckets()[0].low, 5.0);
  EXPECT_EQ(series.buckets()[0].high, 5.0);
  EXPECT_TRUE(std::isnan(series.buckets()[1].mean()));
}

}  // namespace
}  // namespace ng::report
