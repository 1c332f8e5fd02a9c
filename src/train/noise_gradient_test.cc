// What noise on weights learns follows the loss.
#include "support/loss_gradient.h"

namespace ng {
namespace {

/// Large noise in FP32, so that losses are smooth.
std::string noise(const std::string& kind, const std::string& keys) {
  return "weight_noise = { kind = '" + kind + "', cast = 'fp32', " + keys + " }";
}

TEST(NoiseGradient, OfBitWidthsIsThatOfTheLoss) {
  for (const char* kind : {"gaussws", "diffq"})
    for (const char* block : {"[32, 32]", "'tensor'"})
      for (const char* bits : {"b_init = 2.0, b_target = 0.0", "b_init = 0.5, b_target = 1.5"})
        for (const char* layer : {"blocks.0.mlp.up", "blocks.1.attn.out", "blocks.1.mlp.down"})
          expect_gradient(noise(kind, fmt::format("block = {}, {}", block, bits)),
                          fmt::format("{}.b_i", layer));
}

// λ·mean|b_t - b_target|: the first layer has 34 x 20 weights, two blocks.
TEST(NoiseGradient, BitWidthsCostWhatTheRecipeSays) {
  const std::string keys = "b_init = 2.0, b_target = 0.0, bitwidth_loss = 0.5";
  expect_gradient(noise("gaussws", keys), "blocks.0.mlp.up.b_i", 2 * 0.5 / 2);
  expect_gradient(noise("diffq", "block = 'tensor', " + keys), "blocks.0.mlp.up.b_i", 2 * 0.5);
}

// Δ follows a where all weights lie inside.
TEST(NoiseGradient, OfTheClipIsThatOfTheLoss) {
  const std::string recipe = noise("nipq", "block = 'tensor', b_init = 2.5");
  for (const char* layer : {"blocks.0.mlp.up", "blocks.1.attn.out"})
    expect_gradient(recipe, fmt::format("{}.alpha", layer));
}

// Weights are stored as dgrad reads them, but what it reads has noise, far larger than they are.
TEST(NoiseGradient, BackwardReadsTheNoisyWeightWhereTheStoredOneFits) {
  const std::string recipe =
      "weight_noise = { kind = 'gaussws', b_init = 1.0, b_target = 0.5 }\n"
      "weights = { storage = 'fp8_e4m3', master = 'fp32' }\nlinear.dgrad.weight = ";
  const Gradients want = OneStep(recipe + "'bf16'", "", 0).gradients;
  for (const auto& [name, found] : OneStep(recipe + "'fp8_e4m3'", "", 0).gradients) {
    if (!name.ends_with(".weight")) continue;  // sums that cancel
    double error = 0, squares = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      error += std::pow(double{found[i]} - want.at(name)[i], 2);
      squares += std::pow(want.at(name)[i], 2);
    }
    EXPECT_LT(std::sqrt(error / squares), 0.25) << name;  // E4M3 rounds by 1/16, in many layers
  }
}

}  // namespace
}  // namespace ng
