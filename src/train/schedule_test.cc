#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng {
namespace {

constexpr Schedule kBase{.steps = 100, .warmup = 9, .lr = 1.0, .min_lr = 0.1};

Schedule with(ScheduleKind kind) {
  Schedule schedule = kBase;
  schedule.kind = kind;
  return schedule;
}

constexpr ScheduleKind kAll[] = {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::wsd,
                                 ScheduleKind::constant};

TEST(Schedule, WarmsUpInEqualSteps) {
  for (const ScheduleKind kind : kAll) {
    for (int64_t step = 0; step < 9; ++step)
      EXPECT_DOUBLE_EQ(learning_rate(with(kind), step), 0.1 * double(step + 1));
    EXPECT_EQ(learning_rate(with(kind), 9), 1.0);
  }
}

TEST(Schedule, CosineIsHalfACosine) {
  const Schedule schedule = with(ScheduleKind::cosine);
  for (int64_t step = 9; step < 100; ++step) {
    const double x = double(step - 9) / 91;
    const double expected = 0.1 + 0.5 * (1 + std::cos(M_PI * x)) * 0.9;
    EXPECT_NEAR(learning_rate(schedule, step), expected, 1e-12) << step;
  }
}

TEST(Schedule, LinearIsALine) {
  const Schedule schedule = with(ScheduleKind::linear);
  for (int64_t step = 9; step < 100; ++step)
    EXPECT_NEAR(learning_rate(schedule, step), 0.1 + 0.9 * double(100 - step) / 91, 1e-15);
}

TEST(Schedule, WsdStaysThenFalls) {
  Schedule schedule = with(ScheduleKind::wsd);
  for (int64_t step = 9; step <= 80; ++step) EXPECT_EQ(learning_rate(schedule, step), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 85), 0.1 + 0.9 * 0.75, 1e-15);
  EXPECT_NEAR(learning_rate(schedule, 99), 0.1 + 0.9 * 0.05, 1e-15);
  schedule.decay_shape = DecayShape::sqrt;
  EXPECT_EQ(learning_rate(schedule, 80), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 85), 0.1 + 0.9 * 0.5, 1e-15);
  schedule.decay_fraction = 1;
  EXPECT_EQ(learning_rate(schedule, 9), 1.0) << "the decay does not eat into the warm-up";
}

TEST(Schedule, ConstantStays) {
  for (int64_t step = 9; step < 200; ++step)
    EXPECT_EQ(learning_rate(with(ScheduleKind::constant), step), 1.0);
}

TEST(Schedule, NeverRisesAfterTheWarmUpNorLeavesItsRange) {
  for (const ScheduleKind kind : kAll) {
    for (const int64_t steps : {1, 2, 10, 97}) {
      Schedule schedule = with(kind);
      schedule.steps = steps;
      schedule.decay_fraction = 0.01;
      double last = 1.0;
      for (int64_t step = 9; step < steps + 20; ++step) {
        const double lr = learning_rate(schedule, step);
        EXPECT_LE(lr, last);
        EXPECT_GE(lr, 0.1);
        last = lr;
      }
    }
  }
}

TEST(Schedule, WarmUpMayOutlastTheRun) {
  Schedule schedule = with(ScheduleKind::cosine);
  schedule.steps = 3;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2), 0.3);
}

TEST(Schedule, NoWarmUp) {
  for (const ScheduleKind kind : kAll) {
    Schedule schedule = with(kind);
    schedule.warmup = 0;
    EXPECT_EQ(learning_rate(schedule, 0), 1.0);
    schedule.steps = 1;
    EXPECT_EQ(learning_rate(schedule, 0), 1.0);
  }
}

}  // namespace
}  // namespace ng
