// Expansion of a block's range, value by value. [linear.md 9; rivals.md 2.7]
#include "format/expansion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "format/codec.h"
#include "math/normal.h"

namespace ng {
namespace {

Expansion expansion_of_block(const std::vector<float>& block) {
  float most = 0, least = 0;
  for (const float x : block) {
    const float a = std::fabs(x);
    most = std::max(most, a);
    if (a != 0 && (least == 0 || a < least)) least = a;
  }
  return expansion_of(most, least);
}

/// A block, stored and read again.
std::vector<float> through(const std::vector<float>& block) {
  const ExpandedLimits limits(expansion_of_block(block));
  const ExpandedValues values(expansion_of_block(block));
  std::vector<float> back;
  for (const float x : block) back.push_back(values.value(limits.code(x)));
  return back;
}

/// y of the definition, by the C library's powers.
double expanded(const Expansion& e, float x) {
  return std::pow(std::fabs(x) / double{e.center}, double{e.power}) / e.scale;
}

TEST(Expansion, OfOneMagnitudeIsNone) {
  for (const float x : {1e-6f, 1.0f, 3e20f}) {
    const Expansion e = expansion_of(x, x);
    EXPECT_EQ(e.power, 1);
    EXPECT_NEAR(e.center, x, 1e-6f * x);
    EXPECT_NEAR(e.scale, 1.0f / 448, 1e-8f);
    const std::vector<float> back = through({x, -x, 0});
    EXPECT_NEAR(back[0], x, 1e-6f * x);
    EXPECT_NEAR(back[1], -x, 1e-6f * x);
    EXPECT_EQ(back[2], 0);
  }
  const Expansion of_zeros = expansion_of(0, 0);
  EXPECT_EQ(of_zeros.power, 1);
  EXPECT_EQ(of_zeros.center, 1e-30f);
  EXPECT_EQ(through({0, 0}), (std::vector<float>{0, 0}));
}

// 448 and 448 / 100352 are the ends of the range; powers are multiples of 1/16, downwards.
TEST(Expansion, FillsTheRange) {
  EXPECT_EQ(expansion_of(100352, 1).power, 1);
  EXPECT_EQ(expansion_of(1000, 1).power, 1.625f);  // 11.516 / 6.908 = 1.667
  EXPECT_EQ(expansion_of(std::numeric_limits<float>::max(), 0x1p-149f).power, 0.0625f);
  const float next = std::nextafter(1.0f, 2.0f);
  for (const auto& [most, least] :
       {std::pair(1.0f, 0.5f), {1.0f, 1e-3f}, {1e10f, 1e-10f}, {next, 1.0f}}) {
    const Expansion e = expansion_of(most, least);
    EXPECT_NEAR(expanded(e, most), 448, 1e-3);
    const ExpandedLimits limits(e);
    EXPECT_EQ(limits.code(most), 126);
    EXPECT_EQ(limits.code(-most), 128 + 126);
    EXPECT_GE(limits.code(least), 2) << "448 / 100352 is 2.3 times the smallest number";
  }
}

// Codes are those of the nearest number of E4M3 in y, values their powers, within what FP64 rounds
// differently: at 4,000 numbers of blocks of all ranges.
TEST(Expansion, IsThatOfTheDefinition) {
  const ElementFormat& e4m3 = element_format("e4m3");
  for (const float range : {1.001f, 1.5f, 30.0f, 1e3f, 1e6f, 1e12f, 1e30f}) {
    const float most = 3.7f, least = most / range;
    const Expansion e = expansion_of(most, least);
    const ExpandedLimits limits(e);
    const ExpandedValues values(e);
    for (int i = 0; i <= 4000; ++i) {
      const auto x = static_cast<float>(least * std::pow(double{range}, i / 4000.0));
      const double y = std::min(expanded(e, x), 448.0);
      const uint8_t code = limits.code(x);
      const double here = decode(e4m3, code);
      const double off = std::fabs(here - y);
      for (const int beside : {code - 1, code + 1}) {
        if (beside < 0 || beside > 126) continue;
        const double there = decode(e4m3, static_cast<uint32_t>(beside));
        ASSERT_LE(off, std::fabs(there - y) + 1e-9 * y) << x;
      }
      const double want = std::pow(here * e.scale, 1 / double{e.power}) * e.center;
      ASSERT_NEAR(values.value(code), want, 1e-7 * want);
      ASSERT_EQ(values.value(limits.code(-x)), -values.value(code));
    }
  }
}

/// Of 400 blocks of values made of N(0, 1): the median relative error, and how many became zeros.
struct Errors {
  double median = 0;
  int zeros = 0;
};
template <class Made>
Errors errors_of(const Made& made) {
  constexpr int kBlocks = 400, kBlock = 128;
  std::vector<double> errors;
  Errors of;
  for (int b = 0; b < kBlocks; ++b) {
    std::vector<float> block(kBlock);
    math::fill_normal({.seed = 5, .tensor = static_cast<uint32_t>(b)}, 1, block);
    for (float& x : block) x = made(x);
    const std::vector<float> back = through(block);
    for (size_t i = 0; i < block.size(); ++i) {
      errors.push_back(std::fabs(back[i] / block[i] - 1));
      of.zeros += back[i] == 0 ? 1 : 0;
    }
  }
  const auto middle = errors.begin() + std::ssize(errors) / 2;
  std::nth_element(errors.begin(), middle, errors.end());
  of.median = *middle;
  return of;
}

// Second moments over nine decades: scaled by the largest alone, E4M3 turns a twentieth of them
// into zeros. [rivals.md 2.7: no zeros, .030; .0115; .023]
TEST(Expansion, KeepsNineDecadesAndNarrowBlocks) {
  const Errors wide = errors_of([](float x) { return std::exp(3 * x); });
  EXPECT_EQ(wide.zeros, 0);
  EXPECT_NEAR(wide.median, 0.030, 0.001);
  const Errors normal = errors_of([](float x) { return x; });
  EXPECT_EQ(normal.zeros, 0);
  EXPECT_NEAR(normal.median, 0.0115, 0.0005);
  const Errors squares = errors_of([](float x) { return x * x; });
  EXPECT_EQ(squares.zeros, 0);
  EXPECT_NEAR(squares.median, 0.023, 0.001);
}

}  // namespace
}  // namespace ng
