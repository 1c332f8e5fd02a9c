// What noise on weights learns follows the loss: gradients of a whole step against differences of
// losses, with the same draws.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/tiny_run.h"

namespace ng {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

/// One step from weights eight times the usual first ones, so that noise on them is felt; `moved`
/// is added to the first value of one parameter.
class Step {
 public:
  Step(const std::string& recipe, const std::string& parameter, float moved)
      : tiny_({.recipe = "name = 'test'\n" + recipe}) {
    for (size_t i = 0; i < tiny_.model().parameters().size(); ++i) {
      const Parameter& p = tiny_.model().parameters()[i];
      std::vector<float> values = download(tiny_.run().backend(), p.value());
      if (!p.spec.is_vector)
        for (float& x : values) x *= 8;
      if (p.spec.name == parameter) values.front() += moved;
      write(i, values);
    }
    tiny_.trainer().set_gradient_observer([&] {
      for (const Parameter& p : tiny_.model().parameters())
        gradients[p.spec.name] = download(tiny_.run().backend(), p.grad.view());
    });
    const StepReport report = tiny_.step(0);
    EXPECT_FALSE(report.skipped);
    loss = report.loss;
  }

  double loss = 0;
  Gradients gradients;

 private:
  void write(size_t index, std::span<const float> values) {
    const auto cols = static_cast<size_t>(tiny_.model().parameters()[index].spec.cols);
    for (size_t row = 0; row < values.size() / cols; ++row)
      tiny_.model().write_row(tiny_.run(), index, static_cast<int64_t>(row),
                              values.subspan(row * cols, cols));
  }

  TinyRun tiny_;
};

/// dL/d(first value of the parameter), by a central difference.
double difference_of(const std::string& recipe, const std::string& parameter) {
  constexpr float kMoved = 0x1p-5f;
  return (Step(recipe, parameter, kMoved).loss - Step(recipe, parameter, -kMoved).loss) /
         (2 * kMoved);
}

/// Losses are sums in FP32 of relative error 2^-22 or so; their third derivative adds less than a
/// hundredth.
void expect_gradient(const std::string& recipe, const std::string& parameter, double beside = 0) {
  SCOPED_TRACE(parameter + ": " + recipe);
  const double found = Step(recipe, parameter, 0).gradients.at(parameter).front();
  const double want = difference_of(recipe, parameter);
  EXPECT_GT(std::abs(want), 3e-4) << "too small to be seen";
  EXPECT_NEAR(found, want + beside, 0.02 * std::abs(want) + 5e-5);
}

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
  const Gradients want = Step(recipe + "'bf16'", "", 0).gradients;
  for (const auto& [name, found] : Step(recipe + "'fp8_e4m3'", "", 0).gradients) {
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
