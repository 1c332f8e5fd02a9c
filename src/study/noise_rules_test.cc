// Table C.1 and the decay of Table E.1 against independent oracles: tests/golden/noise/rules.
#include <gtest/gtest.h>

#include <cmath>

#include "math/noise_precision.h"
#include "study/noise_formats.h"
#include "study/noise_sections.h"
#include "study/noise_weights.h"
#include "support/golden_file.h"

namespace ng::study {
namespace {

TEST(NoiseRulesGolden, ColumnsOfTableC1) {
  const GoldenFile golden("noise/rules");
  for (const std::string name : {"normal", "uniform4"}) {
    SCOPED_TRACE(name);
    const int tau = golden.cases()[name]["tau"];
    const std::vector<int64_t> bits = golden.integers(name + ".bits");
    const std::vector<int64_t> w = golden.integers(name + ".exponent_w");
    const std::vector<int64_t> w_hat = golden.integers(name + ".exponent_w_hat");
    const std::vector<int64_t> mantissa = golden.integers(name + ".mantissa_w_hat");
    const std::vector<int64_t> safe = golden.integers(name + ".safe_in_bf16");
    ASSERT_EQ(bits.size(), 11u);
    for (size_t i = 0; i < bits.size(); ++i) {
      const auto b_t = static_cast<double>(bits[i]);
      const NoisePrecision found = precision_for_noise(b_t, tau);
      EXPECT_EQ(found.exponent_w, w[i]) << b_t;
      EXPECT_EQ(found.exponent_w_hat, w_hat[i]) << b_t;
      EXPECT_EQ(found.mantissa_w_hat, mantissa[i]) << b_t;
      EXPECT_EQ(keeps_noise(b_t, kBf16Mantissa, tau), safe[i] != 0) << b_t;
    }
  }
}

// The last column of Table C.1.
TEST(NoiseRulesGolden, DatatypesOfTableC1) {
  const char* names[] = {"FP6_e3m2", "FP6_e3m2", "FP8_e4m3, FP8_e3m4"};
  for (int b_t = 3; b_t <= 5; ++b_t) {
    const NoisePrecision needed = precision_for_noise(b_t);
    const std::string found = datatypes_for(needed.exponent_w_hat, needed.mantissa_w_hat);
    EXPECT_EQ(found, names[b_t - 3]) << b_t;
  }
  for (int b_t = 6; b_t <= 13; ++b_t) {
    const NoisePrecision needed = precision_for_noise(b_t);
    const char* want = b_t <= 9 ? "BF16, FP16" : b_t <= 12 ? "FP16" : "FP32";
    EXPECT_EQ(datatypes_for(needed.exponent_w_hat, needed.mantissa_w_hat), want) << b_t;
  }
}

TEST(NoiseRulesGolden, BitWidthsAfterDecayAlone) {
  const GoldenFile golden("noise/rules");
  const char* names[] = {"gpt2_124m_6e-4", "gpt2_124m_6e-5", "llama2_134m", "llama2_1b"};
  ASSERT_EQ(decay_runs().size(), std::size(names));
  for (size_t i = 0; i < std::size(names); ++i) {
    const std::string name = fmt::format("decay_{}", names[i]);
    SCOPED_TRACE(name);
    const Json& of = golden.cases()[name];
    const DecayRun& run = decay_runs()[i];
    EXPECT_EQ(run.schedule.steps, of["steps"].get<int64_t>());
    EXPECT_EQ(run.schedule.warmup, of["warmup"].get<int64_t>());
    EXPECT_EQ(run.schedule.lr, of["lr"].get<double>());
    EXPECT_NEAR(run.schedule.min_lr, of["min_lr"].get<double>(), 1e-20);
    const DecayEnd end = decay_alone(run.schedule, of["weight_decay"].get<double>());
    const auto expect_relative = [&](double found, const char* what) {
      const double want = golden.doubles(name + what).front();
      EXPECT_NEAR(found, want, 1e-6 * want) << what;
    };
    expect_relative(end.lr_sum, ".lr_sum");
    expect_relative(end.b_i, ".b_i");
    expect_relative(run.b_target + end.b_i * (run.b_init - run.b_target), ".b_t");
  }
}

// ---------------------------------------------------------------- found by trying

TEST(NoiseFormats, ExponentsOfNoisyWeightsAreTableC1s) {
  for (const NoiseValues& noise : {rounded_normal_values(), uniform4_values()})
    for (int b_t = kFewestBits; b_t <= kMostBits; ++b_t) {
      const NoisePrecision needed = precision_for_noise(b_t, noise.tau);
      const int m = needed.mantissa_w_hat;
      EXPECT_EQ(least_exponent_w_hat(noise, b_t, m), needed.exponent_w_hat) << b_t;
      EXPECT_LE(least_exponent_w(noise, b_t, m), needed.exponent_w) << b_t;
      EXPECT_GE(least_exponent_w(noise, b_t, m), needed.exponent_w - 1) << b_t;
    }
}

// By hand: R = 1 on the largest weight, 1.5, of three that 2 bits of mantissa hold. Noise of 4 bits
// is 3/16, more than half of the step of 1/4; of 6 bits it is 3/64, less than that.
TEST(LostNoise, IsWhatTheCastDoesNotShow) {
  std::vector<float> w(kBlockValues, 0.0f), r(kBlockValues, 0.0f);
  w[0] = 1.5f, r[0] = 1;
  w[1] = 0.5f;
  const WeightBlocks blocks(w);
  for (const auto& [b_t, lost] : {std::pair{4.0, 0}, std::pair{6.0, 1}}) {
    const LostNoise found = lost_noise(blocks, r, b_t, wide_grid(2), {1});
    EXPECT_EQ(found.nonzero, 1);
    EXPECT_EQ(found.lost, lost) << b_t;
  }
}

TEST(FloatGrid, OfBf16IsBf16) {
  const FloatGrid grid = wide_grid(kBf16Mantissa);
  for (const float x : {0.0f, 1.0f, -1.00390625f, 3.1415926f, 1e-30f, -7e20f})
    EXPECT_EQ(rounded(grid, x), round_to_bf16(x)) << x;
}

// Three exponent bits of which the highest is for infinity: binades 2^-5 to 2^0, a step of 2^-7.
TEST(FloatGrid, EndsWhereItsBitsEnd) {
  const FloatGrid grid = float_grid(3, 2, 0);
  EXPECT_EQ(rounded(grid, 1.75f), 1.75f);
  EXPECT_EQ(rounded(grid, 3.0f), 1.75f);
  EXPECT_EQ(rounded(grid, 0x1p-7f), 0x1p-7f);
  EXPECT_EQ(rounded(grid, 0x1p-8f), 0.0f);
}

TEST(WeightBlocks, MaximaArePowersOfTwo) {
  const WeightBlocks blocks = with_power_of_two_maxima(spread_blocks(5, 1, 3, {2}));
  EXPECT_EQ(blocks.amax, std::vector<float>(3, 2.0f));
}

}  // namespace
}  // namespace ng::study
