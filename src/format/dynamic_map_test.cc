// The map of eight bits, value by value. [linear.md 9; rivals.md 2.7]
#include "format/dynamic_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "math/normal.h"
#include "support/golden_file.h"

namespace ng {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(DynamicMap, HasTheValuesOfTheGoldenFile) {
  const GoldenFile golden("linear/moments");
  const auto of = [](bool is_positive) {
    const auto& values = DynamicMap::of(is_positive).values();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(of(false), golden.floats("map.signed"));
  EXPECT_EQ(of(true), golden.floats("map.unsigned"));
}

TEST(DynamicMap, Has256ValuesAndThoseOfThePaper) {
  for (const bool is_positive : {false, true}) {
    const auto& values = DynamicMap::of(is_positive).values();
    EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 256u);
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    EXPECT_EQ(values[DynamicMap::of(is_positive).code_of_zero()], 0);
    EXPECT_EQ(values[255], 1);
  }
  const auto& with_sign = DynamicMap::of(false).values();
  EXPECT_EQ(with_sign[128], 5.5e-7f);
  EXPECT_EQ(with_sign[129], 3.25e-6f);
  EXPECT_EQ(with_sign[253], 0.97890625f);
  EXPECT_EQ(with_sign[254], 0.99296875f);
  EXPECT_EQ(with_sign[0], -0.99296875f);
  const auto& positive = DynamicMap::of(true).values();
  EXPECT_EQ(positive[1], 3.25e-7f);
  EXPECT_NEAR(positive[254], 0.99648, 1e-5);
}

/// The definition: how many midpoints are below y.
int midpoints_below(const std::array<float, 256>& values, float y) {
  int below = 0;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    below += static_cast<float>((double{values[i]} + values[i + 1]) / 2) < y ? 1 : 0;
  return below;
}

// At every midpoint and beside it, at every value, and at numbers of all binades between.
TEST(DynamicMap, CodesAreTheNearestValuesAndTheLowerOfTwo) {
  for (const bool is_positive : {false, true}) {
    const DynamicMap& map = DynamicMap::of(is_positive);
    const auto& values = map.values();
    std::vector<float> tried;
    for (size_t i = 0; i < values.size(); ++i) {
      tried.push_back(values[i]);
      if (i == 0) continue;
      const auto middle = static_cast<float>((double{values[i - 1]} + values[i]) / 2);
      tried.insert(tried.end(),
                   {middle, std::nextafter(middle, -kInfinity), std::nextafter(middle, kInfinity)});
    }
    for (int e = -149; e <= 0; ++e)
      for (int m = 0; m < 256; ++m) {
        const float a = std::min(std::ldexp(1 + static_cast<float>(m) / 256, e), 1.0f);
        tried.insert(tried.end(), {a, -a});
      }
    for (const float y : tried) ASSERT_EQ(map.code(y), midpoints_below(values, y)) << y;
  }
}

// [rivals.md 2.7: squares of N(0, 1) in blocks of 256: median error .009, 0.10 % zeros]
TEST(DynamicMap, LosesLittleOfSquares) {
  constexpr int kBlocks = 400, kBlock = 256;
  const DynamicMap& map = DynamicMap::of(true);
  std::vector<double> errors;
  double zeros = 0;
  for (int b = 0; b < kBlocks; ++b) {
    std::vector<float> block(kBlock);
    math::fill_normal({.seed = 5, .tensor = static_cast<uint32_t>(b)}, 1, block);
    for (float& x : block) x *= x;
    const float scale = *std::max_element(block.begin(), block.end());
    for (const float x : block) {
      const float back = map.values()[map.code(x, 1.0f / scale)] * scale;
      errors.push_back(std::fabs(back / x - 1));
      zeros += back == 0 ? 1 : 0;
    }
  }
  std::nth_element(errors.begin(), errors.begin() + std::ssize(errors) / 2, errors.end());
  EXPECT_NEAR(errors[errors.size() / 2], 0.009, 0.0005);
  EXPECT_NEAR(zeros / (kBlocks * kBlock), 0.0010, 0.0003);
}

TEST(DynamicMap, TakesScalesBelowThoseWithAnInverse) {
  const DynamicMap& map = DynamicMap::of(false);
  const float inverse = 1.0f / 1e-40f;  // infinite
  EXPECT_EQ(map.code(0.0f, inverse), map.code_of_zero());
  EXPECT_EQ(map.code(1e-40f, inverse), 255);
  EXPECT_EQ(map.code(-1e-40f, inverse), 0);
}

}  // namespace
}  // namespace ng
