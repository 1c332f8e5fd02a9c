#include "math/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace ng::math {
namespace {

// Of Llama 3.1, by transformers 5.24's _compute_llama3_parameters, which computes in FP32: a power,
// its reciprocal and the blend are off by at most 8 units of 2^-24 together.
TEST(RopeScaling, FrequenciesAreThoseOfTransformers) {
  constexpr RopeScaling kLlama31{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
  constexpr std::pair<int, double> kExpected[] = {
      {0, 1.0},
      {10, 0.12868738174438477},
      {28, 0.0032114461064338684},  // the last that stays
      {29, 0.0021665706299245358},  // blends
      {32, 0.0005248460220173001},
      {34, 0.0001785077911335975},
      {35, 9.556212171446532e-05},  // the first that is divided
      {50, 4.411534519022098e-06},
      {63, 3.068925877869333e-07}};
  for (const auto& [i, expected] : kExpected) {
    const double plain = std::pow(500000.0, -2.0 * i / 128);
    EXPECT_NEAR(scaled_frequency(kLlama31, plain), expected, expected * 8 * 0x1p-24) << i;
    EXPECT_EQ(scaled_frequency({}, plain), plain) << i;
  }
}

TEST(RopeScaling, IsContinuous) {
  constexpr RopeScaling kScaling{
      .factor = 5, .low_freq_factor = 2, .high_freq_factor = 3, .original_context = 1000};
  for (const double turns : {2.0, 3.0}) {
    const double at = turns * 6.283185307179586 / 1000;
    const double below = scaled_frequency(kScaling, at * (1 - 1e-9));
    const double above = scaled_frequency(kScaling, at * (1 + 1e-9));
    EXPECT_NEAR(above / below, 1, 1e-7) << turns;
  }
}

}  // namespace
}  // namespace ng::math
