// The head in pieces against the head in one: the same operands, the same loss.
#include "nn/head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "run/backends.h"

namespace ng {
namespace {

// 64 MiB hold 128 tokens' logits of this vocabulary, so that there are two pieces.
constexpr int64_t kTokens = 160, kWidth = 16, kVocab = 70000;
constexpr uint32_t kInputId = 3, kWeightId = 5, kOutputId = 8;

Rows<float> matrix(Run& run, int64_t rows, int64_t cols) {
  return {run.persistent_values<float>("matrix", static_cast<size_t>(rows * cols)), rows, cols,
          cols};
}

void fill(const Rows<float>& view, uint32_t seed, float size) {
  const RandomKey key{.seed = seed, .tensor = 0, .step = 0, .purpose = Purpose::init};
  for (int64_t i = 0; i < view.size(); ++i)
    view.data[i] =
        size * (static_cast<float>(draw(key, static_cast<uint64_t>(i))[0]) * 0x1p-31f - 1.0f);
}

struct Heads {
  Run run{make_backend("cpu", Threads{2}), 11};
  Rows<float> x = matrix(run, kTokens, kWidth);
  Rows<float> dx[2] = {matrix(run, kTokens, kWidth), matrix(run, kTokens, kWidth)};
  Rows<float> dw[2] = {matrix(run, kVocab, kWidth), matrix(run, kVocab, kWidth)};
  Rows<float> losses = matrix(run, 1, kTokens);
  double loss = 0;
  Parameter weight;
  std::vector<int32_t> targets;
  size_t logits_bytes = 0;

  explicit Heads(const LinearRecipe& recipe) {
    weight.id = kWeightId;
    const Rows<float> values = matrix(run, kVocab, kWidth);
    weight.weight.value = stored_plainly(values);
    fill(x, 1, 1.0f), fill(values, 2, 0.3f);
    for (int64_t t = 0; t < kTokens; ++t) targets.push_back(static_cast<int32_t>(t * 431 % kVocab));
    Head head(Linear(run, {.name = "head",
                           .output = kOutputId,
                           .weight = &weight,
                           .bias = nullptr,
                           .phases = {recipe}}));
    const auto body = [&] {
      in_pieces(head);
      whole(head.linear());
      forget_step(weight);
    };
    const Program program = run.record(body);
    run.reserve({&program});
    run.replay(program, body);
  }

  void in_pieces(Head& head) {
    Source source(Tensor(), x, kInputId);
    const Tensor result = head.loss_and_gradient(
        run, source, {.inputs = {}, .targets = targets, .at = {}, .target_count = kTokens}, &loss);
    run.execute(Copy{dx[0], result});
    run.execute(Copy{dw[0], weight.grad});
  }

  void whole(Linear& linear) {
    Source source(Tensor(), x, kInputId);
    const Tensor logits = linear.forward(run, source);
    run.execute(CrossEntropy{
        .logits = logits, .losses = losses, .targets = targets, .scale = 1.0f / kTokens});
    Source dlogits(logits, kOutputId);
    linear.dgrad(run, dx[1], Into::overwrite, source, dlogits);
    linear.wgrad(run, {dw[1], Into::overwrite}, source, dlogits);
  }
};

TEST(Head, InPiecesDrawsAndScalesAsTheWhole) {
  const Recipe recipe = Recipe::load("mxfp4-all-mxint8-head");
  const Heads heads(recipe.linear({.name = "head"}, 0));
  double sum = 0;
  for (int64_t t = 0; t < kTokens; ++t) sum += double{heads.losses.data[t]};
  EXPECT_NEAR(heads.loss, sum, 1e-9 * sum);  // FP64 sums in another order
  for (int64_t i = 0; i < kTokens * kWidth; ++i)
    ASSERT_EQ(heads.dx[0].data[i], heads.dx[1].data[i]) << i;
  // Two sums of at most 128 products each, added in FP32, against five of 32.
  float largest = 0;
  for (int64_t i = 0; i < kVocab * kWidth; ++i)
    largest = std::max(largest, std::fabs(heads.dw[1].data[i]));
  for (int64_t i = 0; i < kVocab * kWidth; ++i)
    ASSERT_NEAR(heads.dw[0].data[i], heads.dw[1].data[i], 8 * 0x1p-24f * largest) << i;
}

TEST(Head, InPiecesAddsWgradsOfOperandsThatAreStored) {
  const Recipe recipe = Recipe::parse(
      "inherit='bf16'\n[[override]]\nlayers=['head']\n"
      "linear.wgrad={grad={format='bf16', rounding='stochastic'}, input='bf16'}",
      "test.toml");
  const Heads heads(recipe.linear({.name = "head"}, 0));
  // Each sum rounds once a product.
  float largest = 0;
  for (int64_t i = 0; i < kVocab * kWidth; ++i)
    largest = std::max(largest, std::fabs(heads.dw[1].data[i]));
  ASSERT_GT(largest, 0.0f);
  for (int64_t i = 0; i < kVocab * kWidth; ++i)
    ASSERT_NEAR(heads.dw[0].data[i], heads.dw[1].data[i], kTokens * 0x1p-24f * largest) << i;
}

}  // namespace
}  // namespace ng
