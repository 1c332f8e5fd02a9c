// Whole training steps on the emulated card, beside those of the cpu backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/tiny_run.h"

namespace ng {
namespace {

constexpr int64_t kSteps = 20, kFewSteps = 3;

struct Trained {
  std::vector<double> losses;
  std::vector<float> early_weights;  ///< after a few steps
};

/// `threads` - 1 is the order of the card's threads.
Trained trained(const ModelConfig& model, const std::string& recipe, const char* backend,
                int threads = 1, int64_t steps = kSteps) {
  TinyRun run({.model = model,
               .recipe = "name = \"test\"\ninherit = \"" + recipe + "\"",
               .backend = backend,
               .threads = threads});
  Trained result;
  for (int64_t step = 0; step < steps; ++step) {
    run.trainer().set_reports_details(step == 0);
    const StepReport report = run.step(step);
    EXPECT_FALSE(report.skipped) << "step " << step;
    result.losses.push_back(report.loss);
    if (step + 1 == kFewSteps) result.early_weights = run.weights();
  }
  return result;
}

/// The largest distance of the losses of a step.
double distance(const Trained& a, const Trained& b) {
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]));
  return largest;
}

void expect_training(const ModelConfig& model, const char* name) {
  const Trained fp32 = trained(model, "fp32", "cpu");
  for (const char* recipe : {"fp32", "bf16", "mxfp4-sr-rht"}) {
    SCOPED_TRACE(std::string(recipe) + " of " + name);
    const Trained cpu = trained(model, recipe, "cpu");
    const Trained card = trained(model, recipe, "cuda-emulated");
    EXPECT_EQ(card.early_weights,
              trained(model, recipe, "cuda-emulated", 6, kFewSteps).early_weights);
    // In FP32 the tolerance of the golden models. Else a sum in another order rounds some values
    // to a neighbour, and two runs are as two of other roundings: as far from FP32 as the CPU's
    // is, on its other side at most.
    const double most = recipe == std::string("fp32") ? 1e-5 : 2 * distance(cpu, fp32);
    const double off = distance(card, cpu);
    EXPECT_LE(off, most);
    fmt::print("{:<6} {:<13} loss {:.6f} -> {:.6f}, cpu {:.6f}; at most {:.2e} apart, of {:.2e}\n",
               name, recipe, card.losses.front(), card.losses.back(), cpu.losses.back(), off, most);
  }
}

TEST(CudaTraining, TwentyStepsOfGpt2StayBesideTheCpus) { expect_training(tiny_gpt2(), "gpt2"); }
TEST(CudaTraining, TwentyStepsOfLlamaStayBesideTheCpus) { expect_training(tiny_llama(), "llama"); }

TEST(CudaTraining, WhatTheCardLacksIsNamedBeforeTheFirstStep) {
  try {
    TinyRun run({.recipe = "name = \"test\"\ninherit = \"nvfp4\"", .backend = "cuda-emulated"});
    FAIL() << "nvfp4 is not offered";
  } catch (const Unsupported& lack) {
    EXPECT_STREQ(lack.what(), "cuda: operands in nvfp4 block 16x16");
  }
}

}  // namespace
}  // namespace ng
