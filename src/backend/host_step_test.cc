#include "backend/host_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ng {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(DecideStep, ClipsByTheNorm) {
  StepControl control{.loss = 2, .grad_norm = 0, .grad_scale = 0, .skip = 1};
  const double squares = 16;
  const auto decide = [&](double clip) {
    decide_step_on_host({.control = &control, .sum_of_squares = &squares, .clip = clip});
  };
  decide(1.0);
  EXPECT_EQ(control.grad_norm, 4.0);
  EXPECT_EQ(control.grad_scale, static_cast<float>(1.0 / (4.0 + 1e-6)));
  EXPECT_EQ(control.skip, 0u);
  EXPECT_EQ(control.loss, 2.0);
  decide(100.0);
  EXPECT_EQ(control.grad_scale, 1.0f);
  decide(0);  // no clipping
  EXPECT_EQ(control.grad_scale, 1.0f);
}

TEST(DecideStep, SkipsWhatIsNotFinite) {
  const auto skips = [](double loss, double squares, OperandStats stats) {
    StepControl control{.loss = loss, .grad_norm = 0, .grad_scale = 0, .skip = 0};
    const OperandStats all[2] = {{}, stats};
    decide_step_on_host({.control = &control,
                         .sum_of_squares = &squares,
                         .clip = 1.0,
                         .stats = all,
                         .stats_count = 2});
    EXPECT_FALSE(std::isnan(control.grad_scale));
    return control.skip != 0;
  };
  EXPECT_FALSE(skips(1, 1, {.values = 9, .saturated = 1, .flushed = 1}));
  EXPECT_TRUE(skips(kNan, 1, {}));
  EXPECT_TRUE(skips(kInf, 1, {}));
  EXPECT_TRUE(skips(1, kNan, {}));
  EXPECT_TRUE(skips(1, kInf, {}));
  EXPECT_TRUE(skips(1, 1, {.nan = 1}));
  EXPECT_TRUE(skips(1, 1, {.inf = 1}));
}

}  // namespace
}  // namespace ng
