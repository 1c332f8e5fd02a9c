// SumOrder::tile32 by hand. [gemm.h]
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/ref/gemm.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

ConstView row_of(const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  return {x.data(), 1, count, count};
}

float product(const std::vector<float>& a, const std::vector<float>& b, SumOrder sum,
              Into into = Into::overwrite, float y = 0) {
  const Prepared left(operand_of("bf16"), row_of(a)), right(operand_of("bf16"), row_of(b));
  perform(Gemm{.y = {&y, 1, 1, 1},
               .a = &left.packed(),
               .b = &right.packed(),
               .into = into,
               .bias = {},
               .sum = sum});
  return y;
}
float tiles(const std::vector<float>& a, const std::vector<float>& b, float carried = 0) {
  return product(a, b, SumOrder::tile32, Into::carry, carried);
}

TEST(TileSum, EvenAndOddProductsAreSummedApart) {
  // 2^24 + 1 is 2^24: the even ones lose theirs. One chain: (2^24 - 2^24) + 1 + 1.
  const std::vector<float> a = {0x1p24f, -0x1p24f, 1, 1}, ones(4, 1.0f);
  EXPECT_EQ(tiles(a, ones), 0x1p24f + (-0x1p24f + 1));
  EXPECT_EQ(product(a, ones, SumOrder::chain), 2);
}

TEST(TileSum, EveryThirtyTwoAreASumOfTheirOwn) {
  std::vector<float> a(65), ones(65, 1.0f);
  a[0] = 0x1p24f;
  a[2] = 1;   // lost in the chain of the first 32
  a[32] = 1;  // lost where its 32 are added
  a[33] = 1;  // with the one before not: 2
  a[64] = 2;
  EXPECT_EQ(tiles(a, ones), 0x1p24f + 4);
  a[33] = 0;
  EXPECT_EQ(tiles(a, ones), 0x1p24f + 2);
}

TEST(TileSum, SubnormalsAreZeros) {
  EXPECT_EQ(tiles({0x1p-127f}, {0x1p10f}), 0);
  EXPECT_EQ(tiles({0x1p-64f}, {0x1p-63f}), 0);
  EXPECT_EQ(tiles({0x1p-63f}, {0x1p-63f}), 0x1p-126f);
  EXPECT_EQ(tiles({1}, {1}, 0x1p-130f), 1);
  EXPECT_EQ(tiles({0}, {1}, 0x1p-130f), 0);
  EXPECT_EQ(tiles({0x1p-63f, 0, -0x1.8p-63f}, {0x1p-63f, 0, 0x1p-63f}), 0);  // -2^-127
}

// 2^-126 less what 24 bits hold just below it, and less than half of that.
TEST(TileSum, WhatRoundsToTheLeastNormalNumberStays) {
  const float root = 0x1p-63f;
  EXPECT_EQ(tiles({root, 0, -0x1.8p-75f}, {root, 0, 0x1p-76f}), 0);
  EXPECT_EQ(tiles({root, 0, -0x1.8p-76f}, {root, 0, 0x1p-76f}), 0x1p-126f);
}

TEST(TileSum, ZerosAreOfNoSign) {
  const float below = tiles({-0x1p-64f}, {0x1p-64f}), zero = tiles({-0.0f}, {1}, -0.0f);
  EXPECT_FALSE(std::signbit(below));
  EXPECT_FALSE(std::signbit(zero));
}

TEST(TileSum, ScalesOfBlocksAreInTheValues) {
  // Values in the last place of BF16 times E4M3 scales: exact.
  std::vector<float> a(32, 6.0f), b(32, 6.0f);
  b[0] = 448 * 6;
  const Operand nvfp4 = operand_of("nvfp4");
  const Prepared left(nvfp4, row_of(a), 16), right(nvfp4, row_of(b), 16);
  float chain = 0, sum = 0;
  perform(Gemm{.y = {&chain, 1, 1, 1}, .a = &left.packed(), .b = &right.packed()});
  perform(Gemm{.y = {&sum, 1, 1, 1},
               .a = &left.packed(),
               .b = &right.packed(),
               .bias = {},
               .sum = SumOrder::tile32});
  EXPECT_EQ(sum, chain);  // all of it is exact
}

TEST(TileSum, RefusesWhatBf16DoesNotHold) {
  const std::vector<float> x(4, 1.0f);
  const Prepared wide(operand_of("fp32"), row_of(x));
  float y = 0;
  EXPECT_THROW(perform(Gemm{.y = {&y, 1, 1, 1},
                            .a = &wide.packed(),
                            .b = &wide.packed(),
                            .bias = {},
                            .sum = SumOrder::tile32}),
               InternalError);
}

}  // namespace
}  // namespace ng::ref
