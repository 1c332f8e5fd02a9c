// What roundings let through of a gradient: figures of MS-AMP's DGE, in FP32. [rivals.md §2.4]
#include "format/gradient_factor.h"

#include <gtest/gtest.h>

#include <array>

namespace ng {
namespace {

GradientFactor factor_of(std::string_view element, RoundingGradient gradient) {
  Operand cast = operand_of("mxfp4");
  cast.element = &element_format(element);
  cast.gradient = gradient;
  return gradient_factor_of(cast);
}

TEST(GradientFactor, DgeHasTheFiguresOfMsAmp) {
  const GradientFactor factor = factor_of("e2m1", RoundingGradient::dge);
  constexpr std::array kWant = {.2000, .4446, .5819, .2186, 2.1088,
                                .2709, .3097, .2709, .2416, .5819};
  for (size_t i = 0; i < kWant.size(); ++i) {
    const auto u = static_cast<float>(-6 + 12.0 * static_cast<double>(i) / 19);
    EXPECT_NEAR(factor_at(factor, u), kWant[i], 5e-5) << u;
    EXPECT_EQ(factor_at(factor, -u), factor_at(factor, u)) << u;
  }
}

TEST(GradientFactor, DgeIsSteepBetweenElementsAndFlatBeyondThem) {
  for (const std::string_view element : {"e2m1", "e4m3", "int8", "int4", "mxint8"}) {
    const GradientFactor factor = factor_of(element, RoundingGradient::dge);
    EXPECT_EQ(factor_at(factor, factor.last + 0.5f * factor.last_gap), 3.0f) << element;
    EXPECT_NEAR(factor_at(factor, factor.max), 0.2, 1e-6) << element;
    EXPECT_NEAR(factor_at(factor, 0.0f), 0.2, 1e-6) << element;
    EXPECT_LT(factor_at(factor, 8 * factor.max), 0.1f) << element;
    EXPECT_EQ(factor_at(factor, 0.5f * factor.lowest_binade * factor.spacing), 3.0f) << element;
  }
}

TEST(GradientFactor, DgeOfOneIsStraight) {
  Operand cast = operand_of("mxfp4");
  cast.gradient = RoundingGradient::dge;
  cast.dge_k = 1;
  for (const float u : {0.1f, 0.7f, 3.3f, 6.0f, 7.0f})
    EXPECT_EQ(factor_at(gradient_factor_of(cast), u), 1.0f);
}

TEST(GradientFactor, ClipEndsAtTheLargestElement) {
  const GradientFactor factor = factor_of("e2m1", RoundingGradient::clip);
  EXPECT_EQ(factor_at(factor, 5.99999952f), 1.0f);
  EXPECT_EQ(factor_at(factor, -5.99999952f), 1.0f);
  EXPECT_EQ(factor_at(factor, 6.0f), 0.0f);
  EXPECT_EQ(factor_at(factor, -6.0f), 0.0f);
}

}  // namespace
}  // namespace ng
