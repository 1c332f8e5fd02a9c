#include "study/rounding_laws.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/codec.h"

namespace ng::study {
namespace {

FloatGrid grid(const char* name) { return grid_of(element_format(name)); }

TEST(RoundingLaws, BisectionCountsWhatEnumerationCounts) {
  for (const char* name : {"e2m1", "e4m3", "e5m2"})
    for (int i = 0; i <= 600; ++i) {
      const float x = static_cast<float>(i) * 0.00997f;
      const double low = stochastic_law(grid(name), x, 8).low;
      uint64_t count = 0;
      for (uint32_t random = 0; random < 256; ++random) {
        const uint32_t code =
            encode_float(grid(name), x, {RoundMode::sr, 8, random}, OverflowRule::saturate);
        count += decode_float(grid(name), code) > low ? 1 : 0;
      }
      ASSERT_EQ(ups(grid(name), x, 8), count) << name << " " << x;
    }
}

TEST(RoundingLaws, ChanceIsThatOfTheSearch) {
  for (const char* name : {"e2m1", "e4m3", "fp16"})
    for (int i = 0; i <= 2000; ++i) {  // subnormals of E4M3 and FP16, and up to 6
      const float x =
          i < 1000 ? static_cast<float>(i) * 0x1.7p-27f : static_cast<float>(i - 1000) * 0.0059983f;
      const Chance chance = stochastic_chance(grid(name), x, 16);
      ASSERT_EQ(chance.up, static_cast<double>(ups(grid(name), x, 16)) / 65536) << name << " " << x;
      const Rounded law = stochastic_law(grid(name), x, 16);
      ASSERT_EQ(chance.low, law.low);
      ASSERT_TRUE(chance.up == 0 || chance.high == law.high) << x;
    }
  const Chance beyond = stochastic_chance(grid("e2m1"), 7.5f, 16);
  EXPECT_EQ(beyond.low, 6);
  EXPECT_EQ(beyond.high, 6);
}

TEST(RoundingLaws, StochasticMeanIsExactWhereNoBitIsCutOff) {
  for (int i = 0; i <= 6 * 256; ++i) {  // at most 8 bits below the step of 1/2
    const float x = static_cast<float>(i) / 256;
    const Rounded law = stochastic_law(grid("e2m1"), x, 16);
    EXPECT_EQ(law.mean, x);
    const double f = law.ulp() > 0 ? (x - law.low) / law.ulp() : 0;
    EXPECT_DOUBLE_EQ(law.variance, f * (1 - f) * law.ulp() * law.ulp()) << x;
  }
}

TEST(RoundingLaws, BiasOfFewBitsIsTowardZeroAndBelowOneOfThem) {
  for (int i = 1; i < 4000; ++i) {
    const float x = static_cast<float>(i) * 0.0014987f;
    for (const int bits : {8, 16, 32}) {
      const Rounded law = stochastic_law(grid("e2m1"), x, bits);
      const double bias = law.mean - x;
      ASSERT_LE(bias, 0) << x;
      ASSERT_GT(bias, -std::ldexp(law.ulp() > 0 ? law.ulp() : 1, -bits)) << x;
    }
  }
}

// [formats.md §2.3]
TEST(RoundingLaws, DitherLeaksAcrossTheChangeOfStep) {
  EXPECT_NEAR(dithered_law(grid("e2m1"), 2.2f).mean, 2.175, 1e-4);
  EXPECT_NEAR(dithered_law(grid("e2m1"), 4.3f).mean, 4.20, 1e-4);
  EXPECT_NEAR(dithered_law(grid("e2m1"), 1.2f).mean, 1.2, 1e-4);  // an even grid around
  const Rounded up = stochastic_law(grid("e2m1"), 2.2f, 16);
  EXPECT_EQ(up.mean - up.low, 13107.0 / 65536);
}

TEST(RoundingLaws, NearestHasNoVariance) {
  const Rounded law = nearest_law(grid("e2m1"), 2.2f);
  EXPECT_EQ(law.mean, 2.0);
  EXPECT_EQ(law.high, 3.0);
  EXPECT_EQ(law.variance, 0.0);
  EXPECT_EQ(nearest_law(grid("e2m1"), 3.0f).ulp(), 0.0);
}

}  // namespace
}  // namespace ng::study
