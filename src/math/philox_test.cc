#include "math/philox.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

// Known answers of Random123's kat_vectors for philox4x32 10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomBits, EightOfAGroupComeFromOneCall) {
  const RandomKey key{
      .seed = 7, .tensor = 3, .step = 5, .purpose = Purpose::dgrad_grad, .micro = 2};
  const PhiloxBlock block = philox(7, {1 * 2 + 1, 3, 5, (4u << 24) | 2});
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t half = (block[i / 2] >> (16 * (i % 2))) & 0xFFFF;
    EXPECT_EQ(random_bits(key, 1, 8 + i, 12, 16), half);
    EXPECT_EQ(random_bits(key, 1, 8 + i, 12, 8), half >> 8);
    EXPECT_EQ(random_bits(key, 1, 8 + i, 12, 32) >> 16, half);
  }
}

TEST(RandomBits, GroupsBeyond32BitsReachTheTensorWord) {
  const RandomKey key{.tensor = 9};
  EXPECT_EQ(counter_of(key, (uint64_t{5} << 32) | 1)[1], (5u << 20) | 9u);
}

}  // namespace
}  // namespace ng
