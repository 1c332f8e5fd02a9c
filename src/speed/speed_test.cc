#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/config.h"
#include "run/backends.h"
#include "speed/box_muller.h"
#include "speed/gemm_speed.h"
#include "speed/kernel_speed.h"
#include "speed/layer_speed.h"
#include "speed/update_speed.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

bool says(const std::string& error, std::string_view part) {
  return error.find(part) != std::string::npos;
}

TEST(KernelSpeed, OfTheKernelsAskedForBesideTheLimits) {
  SpeedRun run{.threads = {1}, .rows = 32, .cols = 128, .rounds = 1, .filter = "amax 1x"};
  std::vector<std::string> names;
  for (const KernelSpeed& speed : kernel_speeds(run)) {
    EXPECT_GT(speed.elements_per_second, 0) << speed.name;
    names.push_back(speed.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"copy", "read", "amax 1x32", "amax 1x16"}));
  run.filter = "noise";
  names.clear();
  for (const KernelSpeed& speed : kernel_speeds(run)) names.push_back(speed.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "copy", "read", "noise box-muller", "noise gaussws", "noise gaussws backward",
                "noise diffq", "noise diffq backward", "noise nipq", "noise nipq backward"}));
  run.backend = [] { return make_backend("ref", Threads{1}); };
  const std::vector<KernelSpeed> of_ref = kernel_speeds(run);
  EXPECT_EQ(of_ref.size(), names.size() - 1) << "Box and Muller's are of cpu";
  for (const KernelSpeed& speed : of_ref) EXPECT_GT(speed.elements_per_second, 0) << speed.name;
  run.backend = nullptr;
  run.filter = "gradient";
  names.clear();
  for (const KernelSpeed& speed : kernel_speeds(run)) names.push_back(speed.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"copy", "read", "gradient amax", "gradient to fp8_e4m3",
                                      "gradient of 2 ranks exact", "gradient of 2 ranks ring"}));
  run.filter = "backward bf16";
  names.clear();
  for (const KernelSpeed& speed : kernel_speeds(run)) names.push_back(speed.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "copy", "read", "layer norm backward bf16", "layer gelu backward bf16",
                       "layer swiglu backward bf16", "layer attention backward bf16"}));
  run.filter = "zzz";
  EXPECT_TRUE(says(error_of([&] { (void)kernel_speeds(run); }), "\"zzz\""));
}

/// Box and Muller's formulas in FP64; where half a normal number lies within rounding of the edge
/// of two whole ones, either may come.
TEST(BoxMuller, IsRoundedNormalNoiseOfItsDraws) {
  constexpr int64_t kRows = 3, kCols = 64, kBeside = 16;  // columns that share a pair of draws
  std::vector<uint16_t> draws;
  for (int64_t i = 0; i < kRows * kCols; ++i) draws.push_back(static_cast<uint16_t>(i * 40503));
  const std::vector<float> weight(draws.size(), 0), scales = {1, 4};
  std::vector<Bf16> y(draws.size());
  add_box_muller({.weight = weight.data(),
                  .draws = draws.data(),
                  .scales = scales.data(),
                  .y = y.data(),
                  .rows = kRows,
                  .cols = kCols});
  const auto uniform = [&](int64_t i) { return (draws[static_cast<size_t>(i)] + 0.5) / 65536; };
  int64_t nonzero = 0;
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    const bool is_first = i % (2 * kBeside) < kBeside;
    const int64_t first = is_first ? i : i - kBeside;
    const double angle = 2 * std::numbers::pi * uniform(first + kBeside);
    const double half = std::sqrt(-2 * std::log(uniform(first))) / 2 *
                        (is_first ? std::cos(angle) : std::sin(angle));
    const double found = static_cast<double>(widened(y[static_cast<size_t>(i)])) /
                         scales[static_cast<size_t>(i % kCols / (2 * kBeside))];
    EXPECT_EQ(found, std::nearbyint(found));
    EXPECT_LE(std::abs(found - half), 0.5 + 1e-5) << i;
    nonzero += found != 0 ? 1 : 0;
  }
  EXPECT_GT(nonzero, kRows * kCols / 5);
}

/// Bytes an element of those that have no scale of their own; of a scale of the whole weight, or of
/// 128 values, a little more.
TEST(UpdateSpeed, OfEveryRuleAndStorage) {
  const UpdateSpeedRun run{.threads = {1}, .rows = 128, .cols = 256, .rounds = 1, .filter = ""};
  const UpdateSpeeds speeds = update_speeds(run);
  const auto bytes_of = [&](std::string_view name) {
    for (const UpdateSpeed& speed : speeds.updates)
      if (speed.name == name) return speed.bytes_per_element;
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_EQ(speeds.updates.front().name, "fp32");
  EXPECT_EQ(bytes_of("fp32"), 2 * (4 + 4 + 4) + 4);
  struct Rule {
    const char* name;
    double carry;
  };
  for (const Rule& rule : {Rule{"nearest", 0}, Rule{"stochastic", 0}, Rule{"kahan", 2},
                           Rule{"residual 8", 1}, Rule{"residual 4", 0.5},
                           Rule{"precision_aware", 0}, Rule{"stochastic, momentum_feedback", 0}}) {
    const double states = 2 * (rule.carry + 4 + 4) + 4;
    EXPECT_EQ(bytes_of(fmt::format("bf16 {}", rule.name)), 2 * 2 + states);
    EXPECT_NEAR(bytes_of(fmt::format("fp8_e4m3 pow2 {}", rule.name)), 2 * 1 + states, 1e-3);
    if (std::string_view(rule.name) != "precision_aware") {
      EXPECT_NEAR(bytes_of(fmt::format("nvfp4 {}", rule.name)), 2 * 4.5 / 8 + states, 1e-3);
    }
  }
  EXPECT_EQ(bytes_of("bf16, master fp32"), 2 + 2 * (4 + 4 + 4) + 4);
  EXPECT_NEAR(bytes_of("fp8-lm: fp8_e4m3, master fp16, moments fp8_e4m3, fp16, gradient fp8_e4m3"),
              1 + 2 * (2 + 1 + 2) + 1, 1e-3);
  EXPECT_EQ(bytes_of("adamw-fp8-states: fp32, moments fp8_e4m3 1x128, bf16"),
            2 * (4 + 1 + 4.0 / 128 + 2) + 4);
  EXPECT_NEAR(bytes_of("coat-adamw: fp32, moments fp8_e4m3 1x128 expand"),
              2 * (4 + 2 * (1 + 12.0 / 128)) + 4, 1e-3);
  EXPECT_NEAR(bytes_of("adam8bit: fp32, moments int8 1x256 dynamic"),
              2 * (4 + 2 * (1 + 4.0 / 256)) + 4, 1e-3);
  EXPECT_EQ(bytes_of("fp32, moments bf16 in two parts"), 2 * (4 + 2 * 4) + 4);
  EXPECT_EQ(bytes_of("sgd fp32"), 2 * (4 + 4) + 4);
  EXPECT_EQ(bytes_of("muon fp32"), 2 * (4 + 4) + 4);
  EXPECT_NEAR(bytes_of("adam_mini bf16 stochastic"), 2 * (2 + 4) + 4, 2 * 4.0 / 128 + 1e-3);
  EXPECT_EQ(speeds.updates.size(), 32U);
  EXPECT_GT(speeds.bandwidth(), 0);
  for (const UpdateSpeed& speed : speeds.updates) {
    EXPECT_GT(speed.elements_per_second, 0) << speed.name;
    EXPECT_GT(speed.bytes_per_second(), speed.elements_per_second) << speed.name;
  }
}

TEST(UpdateSpeed, OfThoseAskedForBesideFp32) {
  UpdateSpeedRun run{.threads = {1}, .rows = 16, .cols = 128, .rounds = 1, .filter = "kahan"};
  std::vector<std::string> names;
  for (const UpdateSpeed& speed : update_speeds(run).updates) names.push_back(speed.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"fp32", "bf16 kahan", "fp8_e4m3 pow2 kahan", "nvfp4 kahan"}));
  run.filter = "zzz";
  EXPECT_TRUE(says(error_of([&] { (void)update_speeds(run); }), "\"zzz\""));
}

TEST(GemmSpeed, OfEveryFormat) {
  GemmSpeed speed({.threads = {1}, .formats = {"fp32", "nvfp4/16x16"}, .rounds = 1});
  const std::vector<double> seconds = speed.seconds({.m = 16, .n = 16, .k = 32});
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_TRUE(seconds[0] > 0 && seconds[1] > 0);
  for (const char* format : {"mxfp4/1x16", "mxfp4/", "mxfp5"}) {
    GemmSpeed refused({.threads = {1}, .formats = {format}, .rounds = 1});
    EXPECT_TRUE(says(error_of([&] { (void)refused.seconds({1, 1, 32}); }), "mxfp")) << format;
  }
}

TEST(LayerSpeed, LayersOfOneShapeAreOneKind) {
  const Recipe recipe = Recipe::parse("linear = \"mxfp4\"", "test.toml");
  const ModelConfig config = model_preset("gpt2-124m");
  size_t layers = 0;
  const std::vector<LayerKind> kinds = layer_kinds(config, recipe, 0);
  for (const LayerKind& kind : kinds) layers += kind.names.size();
  EXPECT_LT(kinds.size(), 8U);
  EXPECT_GE(layers, 4U * static_cast<size_t>(config.layers));
}

}  // namespace
}  // namespace ng
