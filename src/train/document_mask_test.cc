// Documents packed into a sequence do not see each other.
#include <gtest/gtest.h>

#include "support/tiny_run.h"

namespace ng {
namespace {

constexpr int64_t kMaskedLength = 12, kDocument = 6;

/// A step that counts the second documents alone, the first ones of other tokens by `shift`.
StepReport step_behind(TinyRunOptions options, int32_t shift, std::vector<float>* weights) {
  options.length = kMaskedLength;
  options.masked = true;
  TinyRun tiny(options);
  tiny.fill(0);
  const BatchSpans to = tiny.trainer().train_tokens(0);
  const auto vocab = static_cast<int32_t>(tiny.model().config().vocab);
  for (size_t i = 0; i < to.inputs.size(); ++i) {
    const bool second = static_cast<int64_t>(i) % kMaskedLength >= kDocument;
    to.mask[i] = second ? 1.0f : 0.0f;
    if (!second) to.inputs[i] = (to.inputs[i] + shift) % vocab;
  }
  const StepReport report = tiny.trainer().step(0, TinyRun::kRate);
  *weights = tiny.weights();
  return report;
}

TEST(DocumentMask, WhatStandsInAnotherDocumentChangesNothing) {
  for (const ModelConfig& model : {tiny_llama(), tiny_gpt2()})
    for (const char* backend : {"cpu", "ref"})
      for (const RecomputePolicy recompute : {RecomputePolicy::none, RecomputePolicy::block}) {
        const TinyRunOptions packed{
            .model = model, .backend = backend, .recompute = recompute, .document = kDocument};
        TinyRunOptions crossing = packed;
        crossing.document = 0;
        std::vector<float> weights, shifted;
        const double loss = step_behind(packed, 0, &weights).loss;
        EXPECT_EQ(step_behind(packed, 1, &shifted).loss, loss);
        EXPECT_NE(step_behind(crossing, 1, &shifted).loss, step_behind(crossing, 0, &weights).loss);
      }
}

TEST(DocumentMask, OfOneDocumentIsNone) {
  TinyRun plain(TinyRunOptions{.length = kMaskedLength});
  TinyRun one(TinyRunOptions{.length = kMaskedLength, .document = kMaskedLength});
  for (int64_t step = 0; step < 3; ++step) EXPECT_EQ(one.step(step).loss, plain.step(step).loss);
  EXPECT_EQ(one.weights(), plain.weights());
}

}  // namespace
}  // namespace ng
