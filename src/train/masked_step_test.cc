// A target that the mask leaves out is as if it were not there, and the step's gradient is the mean
// over the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/tiny_run.h"

namespace ng {
namespace {

const char* const kFp32 = "name = \"fp32\"";
const char* const kNarrow =
    "name = \"narrow\"\n"
    "linear.fprop = { input=\"mxfp4\", weight=\"nvfp4\" }\n"
    "linear.dgrad = { grad={format=\"mxfp4\", rounding=\"stochastic\", prescale=0.75}, "
    "weight=\"mxfp4\", hadamard=32 }\n"
    "linear.wgrad = { grad={format=\"fp8_e5m2\", scaling=\"delayed\"}, "
    "input={format=\"fp8_e4m3\", scaling=\"delayed\"} }\n";

/// Whether target i of a micro-batch counts.
using Counts = std::function<bool(int64_t micro, size_t i)>;

void put_mask(TinyRun& tiny, const Counts& counts) {
  for (int64_t micro = 0; micro < tiny.trainer().settings().micros; ++micro) {
    const std::span<float> mask = tiny.trainer().train_tokens(micro).mask;
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = counts(micro, i) ? 1.0f : 0.0f;
  }
}

StepReport masked_step(TinyRun& tiny, int64_t number, const Counts& counts) {
  tiny.fill(number);
  put_mask(tiny, counts);
  return tiny.trainer().step(number, TinyRun::kRate);
}

bool every_third(int64_t micro, size_t i) { return (i + static_cast<size_t>(micro)) % 3 == 0; }
bool none(int64_t /*micro*/, size_t /*i*/) { return false; }

TinyRunOptions options_of(const char* recipe, bool masked, int64_t micros = 1) {
  return {.recipe = recipe, .micros = micros, .masked = masked};
}

TEST(MaskedStep, MasksOfOnesGiveTheBitsOfNoMask) {
  for (const char* recipe : {kFp32, kNarrow}) {
    TinyRun plain(options_of(recipe, false, 2)), masked(options_of(recipe, true, 2));
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport want = plain.step(step), have = masked.step(step);
      EXPECT_EQ(have.loss, want.loss);
      EXPECT_EQ(have.grad_norm, want.grad_norm);
      EXPECT_EQ(have.targets, 66);
      EXPECT_EQ(want.targets, 66);
    }
    EXPECT_EQ(masked.weights(), plain.weights());
    EXPECT_EQ(masked.trainer().memory().total, plain.trainer().memory().total);
  }
}

// The other construction of the same step: what is masked is not there at all. FP32, for a narrow
// step's scales and draws see the inputs of both micro-batches.
TEST(MaskedStep, AMicroBatchWithoutTargetsIsAsIfItWereNotThere) {
  TinyRun one(options_of(kFp32, false)), two(options_of(kFp32, true, 2));
  for (int64_t step = 0; step < 3; ++step) {
    const StepReport want = one.step(step);
    const StepReport have =
        masked_step(two, step, [](int64_t micro, size_t) { return micro == 0; });
    EXPECT_EQ(have.loss, want.loss);
    EXPECT_EQ(have.grad_norm, want.grad_norm);
    EXPECT_EQ(have.targets, want.targets);
  }
  EXPECT_EQ(two.weights(), one.weights());
}

TEST(MaskedStep, WhatAMaskedTargetHoldsChangesNothing) {
  for (const char* recipe : {kFp32, kNarrow}) {
    TinyRun tiny(options_of(recipe, true, 2)), other(options_of(recipe, true, 2));
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport want = masked_step(tiny, step, every_third);
      other.fill(step);
      put_mask(other, every_third);
      for (int64_t micro = 0; micro < 2; ++micro) {
        const BatchSpans to = other.trainer().train_tokens(micro);
        for (size_t i = 0; i < to.targets.size(); ++i)
          if (!every_third(micro, i)) to.targets[i] = -1;  // no token at all
      }
      const StepReport have = other.trainer().step(step, TinyRun::kRate);
      EXPECT_EQ(have.loss, want.loss);
      EXPECT_EQ(have.targets, 22);
    }
    EXPECT_EQ(other.weights(), tiny.weights());
  }
}

/// The gradient of every parameter in a first step, times the targets that count: a sum over them.
std::vector<std::vector<float>> summed_gradients(const Counts& counts) {
  TinyRun tiny(options_of(kFp32, true, 2));
  std::vector<std::vector<float>> gradients;
  tiny.trainer().set_gradient_observer([&] {
    for (const Parameter& p : tiny.model().parameters())
      gradients.push_back(download(tiny.run().backend(), p.grad.view()));
  });
  const StepReport report = masked_step(tiny, 0, counts);
  for (std::vector<float>& gradient : gradients)
    for (float& value : gradient) value *= static_cast<float>(report.targets);
  return gradients;
}

// Every sum is rounded some ten times on its way through two blocks and then over 66 tokens, in
// another order where terms are 0: 100 half-units of the largest sum of its tensor.
TEST(MaskedStep, TheSumsOverAMaskAndOverTheRestAreThatOverAll) {
  const auto some = summed_gradients(every_third);
  const auto rest =
      summed_gradients([](int64_t micro, size_t i) { return !every_third(micro, i); });
  const auto all = summed_gradients([](int64_t, size_t) { return true; });
  ASSERT_EQ(some.size(), all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    float largest = 0, differs = 0;
    for (size_t i = 0; i < all[p].size(); ++i) {
      const float sum = some[p][i] + rest[p][i];
      largest = std::max(largest, std::abs(some[p][i]) + std::abs(rest[p][i]));
      differs = std::max(differs, std::abs(some[p][i]));
      EXPECT_TRUE(std::isfinite(sum));
    }
    EXPECT_GT(differs, 0.01f * largest) << "nothing is compared";
    for (size_t i = 0; i < all[p].size(); ++i)
      EXPECT_NEAR(some[p][i] + rest[p][i], all[p][i], 100 * 0x1p-24f * largest) << p << ' ' << i;
  }
}

// In FP32 a forward pass is the same in training and evaluation, up to the order of the sum.
TEST(MaskedStep, TheLossIsTheMeanOverTargetsThatCount) {
  TinyRun tiny(options_of(kFp32, true));
  tiny.fill(0);
  put_mask(tiny, every_third);
  const BatchSpans from = tiny.trainer().train_tokens(0), to = tiny.trainer().evaluation_tokens();
  std::copy(from.inputs.begin(), from.inputs.end(), to.inputs.begin());
  std::copy(from.targets.begin(), from.targets.end(), to.targets.begin());
  std::copy(from.mask.begin(), from.mask.end(), to.mask.begin());
  const double sum = tiny.trainer().evaluate();
  const StepReport report = tiny.trainer().step(0, TinyRun::kRate);
  EXPECT_EQ(report.targets, 11);
  EXPECT_NEAR(report.loss, sum / 11, 1e-6);
}

TEST(MaskedStep, AStepWithoutTargetsLeavesNoTrace) {
  for (const char* recipe : {kFp32, kNarrow}) {
    TinyRun tiny(options_of(recipe, true, 2)), other(options_of(recipe, true, 2));
    masked_step(tiny, 0, every_third);
    masked_step(other, 0, every_third);
    const std::vector<float> before = other.weights();
    const StepReport empty = masked_step(other, 1, none);
    EXPECT_EQ(empty.loss, 0);
    EXPECT_EQ(empty.grad_norm, 0);
    EXPECT_EQ(empty.targets, 0);
    EXPECT_FALSE(empty.skipped);
    EXPECT_EQ(other.weights(), before);
    const StepReport want = masked_step(tiny, 2, every_third);
    EXPECT_EQ(masked_step(other, 2, every_third).loss, want.loss);
    EXPECT_EQ(other.weights(), tiny.weights()) << "moments and delayed scales, too";
    EXPECT_NE(tiny.weights(), before);
  }
}

}  // namespace
}  // namespace ng
