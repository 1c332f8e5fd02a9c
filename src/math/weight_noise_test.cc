#include "math/weight_noise.h"

#include <gtest/gtest.h>

#include <map>

namespace ng {
namespace {

/// A draw whose nibble `at` of every word is that of `bits`, four a word, and whose other bits are
/// `others`.
PhiloxBlock with_nibble(uint32_t bits, int at, uint32_t others) {
  PhiloxBlock block;
  for (int w = 0; w < 4; ++w) {
    const uint32_t nibble = (bits >> (4 * w)) & 15u;
    block[static_cast<size_t>(w)] = (others & ~(15u << (4 * at))) | (nibble << (4 * at));
  }
  return block;
}

// Eq. 10, by all the bits that decide an element: Pr(±2) = 3/4·2^-8, Pr(±1) = 9/32·(1 - Pr(±2)).
TEST(RoundedNormals, ProbabilitiesAreExact) {
  for (const int at : {0, 3, 7})
    for (const uint32_t others : {0u, 0xFFFFFFFFu}) {
      std::map<uint32_t, int> counts;
      for (uint32_t bits = 0; bits < 65536; ++bits)
        ++counts[(rounded_normals(with_nibble(bits, at, others)) >> (4 * at)) & 15u];
      EXPECT_EQ(counts[2] + counts[10], 192);
      EXPECT_EQ(counts[2], counts[10]);
      EXPECT_EQ(counts[1] + counts[9], 18378);
      EXPECT_EQ(counts[1], counts[9]);
      EXPECT_EQ(counts[0] + counts[8], 65536 - 192 - 18378);
      EXPECT_EQ(counts.size(), 6u);
    }
}

TEST(RoundedNormals, ValuesAreSignAndMagnitude) {
  EXPECT_EQ(rounded_normal_of(2), 2.0f);
  EXPECT_EQ(rounded_normal_of(9), -1.0f);
  EXPECT_EQ(rounded_normal_of(0xF0), 0.0f) << "higher nibbles belong to others";
}

TEST(CenteredUniform, IsSymmetricAndOpen) {
  EXPECT_EQ(centered_uniform(0), -0.5f + 0x1p-17f);
  EXPECT_EQ(centered_uniform(65535), 0.5f - 0x1p-17f);
}

TEST(NoiseScale, PowersOfTwoAreExact) {
  for (int e = -149; e <= 127; ++e)
    EXPECT_EQ(math::exp2(static_cast<float>(e)), std::ldexp(1.0f, e)) << e;
  EXPECT_EQ(math::exp2(-1e9f), 0.0f);
  EXPECT_TRUE(std::isinf(math::exp2(128)));
  EXPECT_TRUE(std::isnan(math::exp2(std::nanf(""))));
  for (float e = -20; e < 20; e += 0.37f)
    EXPECT_NEAR(math::exp2(e) / std::exp2(double{e}), 1, 0x1p-23) << e;
}

TEST(NoiseScale, OfABlock) {
  EXPECT_EQ(noise_scale(3, bits_of_block(1, 6, 4)), 3 * 0x1p-5f);
  EXPECT_EQ(noise_scale(0, 4), 0.0f);
  EXPECT_EQ(noise_scale(0x1p-100f, -1000), 0x1p27f) << "the exponent is at most 127";
}

}  // namespace
}  // namespace ng
