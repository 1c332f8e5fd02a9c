#include "report/run_text.h"

#include <gtest/gtest.h>

namespace ng::report {
namespace {

TEST(ScheduleText, SaysWhereTheWarmUpDoesNotEnd) {
  RunConfig config;
  config.train.steps = 21;
  const StepSettings step = {.sequences = 16, .length = 128, .micros = 2, .optimizer = {}};
  EXPECT_EQ(schedule_text(config, step),
            "21 steps of 2 x 16 x 128 = 4,096 tokens; lr 0.001 to 0.0001, cosine, "
            "20 steps of warm-up");
  EXPECT_TRUE(
      schedule_text(config, step, 3).starts_with("21 steps of 3 ranks x 2 x 16 x 128 = 12,288"))
      << schedule_text(config, step, 3);
  config.train.steps = 20;
  EXPECT_TRUE(schedule_text(config, step).ends_with("20 steps of warm-up, which is all of the run"))
      << schedule_text(config, step);
}

}  // namespace
}  // namespace ng::report
