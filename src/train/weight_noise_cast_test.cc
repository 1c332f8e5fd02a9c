// Noisy weights in few bits through whole steps: nothing changes where no cast loses a bit, and
// what is lost is counted.
#include <gtest/gtest.h>

#include "nn/operand_role.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// Weights that few bits hold, so that noise of three bits on them is held by not many more.
std::string on_a_grid(const std::string& element) {
  return "weights = { storage = { element = '" + element +
         "', block = 'tensor', scale = 'pow2' }, update = 'stochastic' }\n";
}
std::string noise_of(const char* bits) {
  return fmt::format("weight_noise.b_init = {}\nweight_noise.b_target = {}\n", bits, bits);
}

/// What three steps leave.
struct Steps {
  double loss = 0;
  std::vector<float> weights;
  OperandStats counted;  ///< of all noisy weights of the last step
};

Steps steps_of(const std::string& keys, const std::string& cast, const std::string& backend = "cpu",
               int64_t micros = 1) {
  TinyRun tiny(
      {.recipe = "name = 'test'\ninherit = 'gaussws-all'\n" + keys + "weight_noise.cast = " + cast,
       .backend = backend,
       .micros = micros});
  Steps steps;
  for (int64_t step = 0; step < 3; ++step) {
    tiny.run().execute(Clear{{reinterpret_cast<std::byte*>(tiny.model().stats().data()),
                              tiny.model().stats().size_bytes()}});
    const StepReport report = tiny.step(step);
    EXPECT_FALSE(report.skipped);
    steps.loss = report.loss;
  }
  steps.weights = tiny.weights();
  const std::vector<OperandStats> stats = tiny.model().read_stats(tiny.run());
  for (size_t i = 0; i < stats.size(); ++i)
    if (i % kOperandRoles == static_cast<size_t>(OperandRole::fprop_weight))
      steps.counted += stats[i];
  return steps;
}

void expect_equal(const Steps& a, const Steps& b, const std::string& what) {
  EXPECT_EQ(a.loss, b.loss) << what;
  EXPECT_EQ(a.weights, b.weights) << what;
}

constexpr const char* kE4m3 = "{ element = 'e4m3', block = 'tensor', scale = 'pow2' }";
constexpr const char* kE3m4 = "{ element = 'e3m4', block = 'tensor', scale = 'pow2' }";
constexpr const char* kE5m2 = "{ element = 'e5m2', block = 'tensor', scale = 'pow2' }";

// Multiples of 1/8 up to 9 of weights in E2M1 take four significant bits.
TEST(NoisyWeightCast, StepsAreThoseOfBf16WhereNothingIsLost) {
  const std::string keys = on_a_grid("e2m1") + noise_of("3.0");
  for (const char* backend : {"cpu", "ref"}) {
    const Steps wide = steps_of(keys, "'bf16'", backend);
    EXPECT_EQ(wide.counted.values, 0u) << "nothing to count";
    for (const char* cast : {kE4m3, kE3m4}) {
      const Steps narrow = steps_of(keys, cast, backend);
      expect_equal(narrow, wide, cast);
      EXPECT_GT(narrow.counted.values, 5000u);
      EXPECT_EQ(narrow.counted.narrowed, 0u) << cast;
      EXPECT_EQ(narrow.counted.flushed + narrow.counted.saturated, 0u) << cast;
    }
  }
  const Steps lossy = steps_of(keys, kE5m2);
  EXPECT_NE(lossy.weights, steps_of(keys, "'bf16'").weights);
  EXPECT_GT(lossy.counted.narrowed, 0u);
}

// 0, 1, 2 and 4 take three significant bits with noise of three bits: FP6 E3M2, of Table C.1.
TEST(NoisyWeightCast, TheTablesFormatSufficesWhereNothingIsLost) {
  const std::string keys = on_a_grid("e2m0fn") + noise_of("3.0");
  const Steps narrow = steps_of(keys, "'table'");
  expect_equal(narrow, steps_of(keys, "'bf16'"), "at 3 bits");
  EXPECT_GT(narrow.counted.values, 5000u);
  EXPECT_EQ(narrow.counted.narrowed, 0u);
}

// With noise of four bits they take four, with noise of five bits five: FP8 E4M3 and E3M4, which it
// names for up to five.
TEST(NoisyWeightCast, Fp8SufficesForItsBitsWhereNothingIsLost) {
  for (const auto& [bits, cast] : {std::pair("4.0", kE4m3), {"5.0", kE3m4}}) {
    const std::string keys = on_a_grid("e2m0fn") + noise_of(bits);
    const Steps narrow = steps_of(keys, cast);
    expect_equal(narrow, steps_of(keys, "'bf16'"), bits);
    EXPECT_EQ(narrow.counted.narrowed, 0u) << bits;
  }
  EXPECT_GT(steps_of(on_a_grid("e2m0fn") + noise_of("5.0"), kE4m3).counted.narrowed, 0u);
}

// At six bits and more the table names BF16, for any weights; below, FP8 and FP6 lose some.
TEST(NoisyWeightCast, TheTableFollowsTheBits) {
  const std::string six = noise_of("6.0");
  expect_equal(steps_of(six, "'table'"), steps_of(six, "'bf16'"), "at 6 bits");
  const Steps fp8 = steps_of(noise_of("5.0"), "'table'"),
              fp6 = steps_of(noise_of("4.0"), "'table'");
  const auto share = [](const Steps& steps) {
    return static_cast<double>(steps.counted.narrowed) / static_cast<double>(steps.counted.values);
  };
  EXPECT_NEAR(share(fp8), 15.0 / 16, 0.05);  // E4M3 has four fewer bits of mantissa than BF16
  EXPECT_GT(share(fp6), share(fp8));
  EXPECT_EQ(fp8.counted.saturated + fp6.counted.saturated, 0u);
}

// With FP32 operands the table goes beyond BF16: FP32 at 13 bits.
TEST(NoisyWeightCast, TheTableIsAsWideAsTheGemmReads) {
  const std::string fp32 =
      "linear.fprop.weight = 'fp32'\nlinear.dgrad.weight = 'fp32'\n"
      "weight_noise.b_init = 13.0\nweight_noise.b_target = 13.0\n";
  expect_equal(steps_of(fp32, "'table'"), steps_of(fp32, "'fp32'"), "at 13 bits");
}

TEST(NoisyWeightCast, IsOneForAllMicroBatchesAndDrawsNewAtEachStep) {
  const std::string drawn = "{ format = 'mxfp8_e4m3', block = [32, 32], rounding = 'stochastic' }";
  const Steps once = steps_of("", drawn), again = steps_of("", drawn);
  expect_equal(once, again, "repeated");
  EXPECT_NE(once.weights, steps_of("", "'mxfp8_e4m3'").weights);
  EXPECT_NE(once.weights, steps_of("", drawn, "cpu", 2).weights);
}

// The GEMM takes codes and scales as they are stored, and rounds no second time: sums are those of
// the values in BF16.
TEST(NoisyWeightCast, CodesAreReadAsTheyAreStored) {
  const std::string cast = "{ format = 'mxfp8_e4m3', block = [32, 32] }";
  const std::string codes =
      "linear.fprop.weight = " + cast + "\nlinear.dgrad.weight = " + cast + "\n";
  const Steps of_values = steps_of("", cast), of_codes = steps_of(codes, cast);
  expect_equal(of_codes, of_values, "codes");
  EXPECT_EQ(of_codes.counted.narrowed > 0, of_values.counted.narrowed > 0);
}

}  // namespace
}  // namespace ng
