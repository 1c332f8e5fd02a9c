// A model whose attention has windows learns from no more than they show it.
#include <gtest/gtest.h>

#include "support/tiny_run.h"
#include "train/small_run.h"

namespace ng {
namespace {

constexpr int64_t kWindowedLength = 12, kWindow = 3, kCounted = 8;

ModelConfig windowed(std::vector<bool> layers) {
  ModelConfig model = tiny_llama();
  model.architecture = layers.empty() ? Architecture::mistral : Architecture::qwen3;
  model.windows = {.size = kWindow, .layers = std::move(layers)};
  return model;
}

struct StepOutcome {
  double loss = 0;
  std::vector<float> weights;
  friend bool operator==(const StepOutcome&, const StepOutcome&) = default;
};

/// A step that counts the tokens from kCounted on, those before `unseen` being others by `shift`.
StepOutcome step_that_counts_the_last(TinyRunOptions options, int64_t unseen, int32_t shift) {
  options.length = kWindowedLength;
  options.masked = true;
  TinyRun tiny(options);
  tiny.fill(0);
  const BatchSpans to = tiny.trainer().train_tokens(0);
  const auto vocab = static_cast<int32_t>(tiny.model().config().vocab);
  for (size_t i = 0; i < to.inputs.size(); ++i) {
    const int64_t position = static_cast<int64_t>(i) % kWindowedLength;
    to.mask[i] = position >= kCounted ? 1.0f : 0.0f;
    if (position < unseen) to.inputs[i] = (to.inputs[i] + shift) % vocab;
  }
  const double loss = tiny.trainer().step(0, TinyRun::kRate).loss;
  return {loss, tiny.weights()};
}

// Two layers of windows of 3 reach 4 tokens back; one, where the other sees all, everything.
TEST(AttentionWindows, WhatStandsBeforeThemChangesNothing) {
  for (const char* backend : {"cpu", "ref"})
    for (const RecomputePolicy recompute : {RecomputePolicy::none, RecomputePolicy::block}) {
      const auto step = [&](const ModelConfig& model, int64_t unseen, int32_t shift) {
        return step_that_counts_the_last(
            {.model = model, .backend = backend, .recompute = recompute}, unseen, shift);
      };
      constexpr int64_t kReach = 2 * (kWindow - 1), kUnseen = kCounted - kReach;
      EXPECT_TRUE(step(windowed({}), kUnseen, 1) == step(windowed({}), 0, 0));
      EXPECT_NE(step(windowed({}), kUnseen + 1, 1).loss, step(windowed({}), 0, 0).loss);
      for (const bool first : {false, true}) {
        const ModelConfig half = windowed({first, !first});
        EXPECT_NE(step(half, kUnseen, 1).loss, step(half, 0, 0).loss);
      }
    }
}

TEST(AttentionWindows, RanksTryThemBeforeARun) {
  const Recipe recipe = Recipe::parse("name = 'fp32'", "test");
  ModelConfig model = windowed({});
  model.layers = 3;
  const std::string all = bits_of_small_run("cpu", model, recipe);
  model.windows = {};
  EXPECT_NE(bits_of_small_run("cpu", model, recipe), all);
  model.architecture = Architecture::qwen3;
  model.windows = {.size = 2, .layers = {true, false, true}};
  EXPECT_FALSE(bits_of_small_run("cpu", model, recipe).empty());
}

}  // namespace
}  // namespace ng
