#include "format/rounding_steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng {
namespace {

TEST(RoundingSteps, OfOneNumberByHand) {
  const RoundingSteps s = rounding_steps(element_format("e2m1"), -1.375f);  // between -1 and -1.5
  EXPECT_TRUE(s.on_grid);
  EXPECT_EQ(s.q, -1);
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(s.f, 0.75);
  EXPECT_EQ(s.below, -1);
  EXPECT_EQ(s.above, -1.5);
  EXPECT_EQ(s.stochastic[0].bits, 8);
  EXPECT_EQ(s.stochastic[0].ups, 192U);
  EXPECT_EQ(s.stochastic[0].expectation, -1.375);
  EXPECT_EQ(s.modes[0].saturate, 0xBU);
  EXPECT_FALSE(rounding_steps(element_format("e2m1"), NAN).on_grid);
  EXPECT_FALSE(rounding_steps(element_format("ue4m3"), -1).on_grid);
}

// What the steps say is what the encoder does, on values and between them.
TEST(RoundingSteps, LeadToTheCode) {
  for (const char* name : {"e2m1", "e3m2", "e4m3", "e5m2", "int8", "mxint8"}) {
    const ElementFormat& format = element_format(name);
    for (const float x : {0.1f, 0.25f, 0.75f, 1.25f, 1.5f, -1.75f, -2.5f, 3.0f, 5.0f, 0.0023f}) {
      const RoundingSteps s = rounding_steps(format, x);
      for (const RoundedBy& mode : s.modes) {
        const double value = mode.up ? s.above : s.below;
        if (std::fabs(value) > max_value(format)) continue;  // saturates
        EXPECT_EQ(decode(format, mode.saturate), value) << name << ' ' << x << ' ' << mode.mode;
      }
    }
  }
}

}  // namespace
}  // namespace ng
