#include "base/flush.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

// Sums that FP64 rounds to halfway between 24 ones below 2^-126 and 2^-126: what it lost decides.
TEST(Flush, SumsAreTinyOnceTheyHaveTwentyFourBits) {
  constexpr float kLeast = 0x1p-126f, kUnit = 0x1p-91f;
  const auto below = [](float a, float b) {  // a · b = -(2^31 + d) · 2^-182
    return flushed_fma(-a * kUnit, b * kUnit, kLeast);
  };
  static_assert(205.0 * 10475530 == 0x1p31 + 2 && 151.0 * 14221746 == 0x1p31 - 2);
  EXPECT_EQ(below(205, 10475530), 0.0f) << "d = 2: below halfway";
  EXPECT_EQ(below(151, 14221746), kLeast) << "d = -2: above";
  EXPECT_EQ(below(128, 16777216), kLeast) << "d = 0: to the even one";
  EXPECT_EQ(flushed_fma(-205 * kUnit, -10475530 * kUnit, -kLeast), 0.0f);
  EXPECT_TRUE(std::signbit(flushed_fma(-205 * kUnit, -10475530 * kUnit, -kLeast)));
}

}  // namespace
}  // namespace ng
