// What forward keeps for backward in few bits: forward does not read it, backward does, and memory
// is what it takes. [rivals.md §2.9]
#include "nn/saved.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numbers/narrow_matrix.h"
#include "support/tiny_run.h"
#include "train/memory_plan.h"

namespace ng {
namespace {

constexpr const char* kPerTensor = "{ format = 'fp8_e4m3', scale = 'pow2' }";
constexpr const char* kBlocks = "{ format = 'fp8_e4m3', block = [1, 128] }";
constexpr const char* kKeys[] = {"norm", "activation", "attention"};

std::string all_saved_as(const std::string& cast) {
  std::string lines;
  for (const char* key : kKeys) lines += fmt::format("saved.{} = {}\n", key, cast);
  return lines;
}

TinyRunOptions tiny_with(const std::string& keys, const ModelConfig& model = tiny_llama(),
                         const std::string& backend = "cpu") {
  return {.model = model, .recipe = "name = 'test'\n" + keys, .backend = backend};
}

/// A matrix in the memory of a run.
class SavedMatrix : public ::testing::TestWithParam<const char*> {
 protected:
  SavedMatrix() : run_(make_backend(GetParam(), Threads{2}), 3) {}

  /// Values of many sizes, some zero.
  [[nodiscard]] static std::vector<float> values(int64_t count) {
    std::vector<float> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) {
      const auto t = static_cast<float>(i);
      x[i] = i % 17 == 0 ? 0.0f : std::sin(t) * std::exp(4 * std::sin(0.37f * t));
    }
    return x;
  }
  /// What save() leaves of x (rows, cols).
  [[nodiscard]] std::vector<float> kept(const std::vector<float>& x, int64_t rows, int64_t cols,
                                        const Operand& cast) {
    std::vector<float> back;
    const auto body = [&] {
      Tensor from = run_.tensor(rows, cols, fp32_format());
      if (!run_.recording()) run_.upload(from.view().as<float>().data, std::span<const float>(x));
      save(run_, from, cast);
      from = {};
      const Tensor to = Saved(run_, cast, fp32_format()).values(run_);
      if (!run_.recording()) back = download(run_.backend(), to.view());
    };
    const Program program = run_.record(body);
    run_.reserve({&program});
    run_.replay(program, body);
    return back;
  }
  ng::Run run_;  // not the method of Test
};

// To the bit those of a cast of the tensor; FP32 is the tensor itself.
TEST_P(SavedMatrix, HasTheValuesOfItsCast) {
  constexpr int64_t kRows = 13, kCols = 300;
  const std::vector<float> x = values(kRows * kCols);
  for (const char* format : {"fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp4", "nvfp4", "int8"}) {
    for (const bool in_blocks : {false, true}) {
      Operand cast = operand_of(format);
      if (in_blocks && cast.block.kind != Block::Kind::tensor) continue;
      if (in_blocks) cast.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
      const Rows<const float> matrix{x.data(), kRows, kCols, kCols};
      EXPECT_EQ(kept(x, kRows, kCols, cast),
                dequantize(quantize(matrix, cast, {}, Threads{1}), Threads{1}))
          << format << in_blocks;
    }
  }
  EXPECT_EQ(kept(x, kRows, kCols, operand_of("fp32")), x);
  EXPECT_NE(kept(x, kRows, kCols, operand_of("bf16")), x);
}

INSTANTIATE_TEST_SUITE_P(Backends, SavedMatrix, ::testing::Values("cpu", "ref"));

// Backward alone reads what is kept: the first loss stays, the first gradient does not, by each key
// and in both kinds of block.
TEST(SavedActivations, ChangeTheGradientAndNotTheLoss) {
  for (const ModelConfig& model : {tiny_llama(), tiny_gpt2()}) {
    TinyRun plain(tiny_with("", model));
    const StepReport want = plain.step(0);
    for (const char* key : kKeys)
      for (const char* cast : {kPerTensor, kBlocks}) {
        SCOPED_TRACE(fmt::format("saved.{} = {}", key, cast));
        TinyRun tiny(tiny_with(fmt::format("saved.{} = {}\n", key, cast), model));
        const StepReport got = tiny.step(0);
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_NE(got.grad_norm, want.grad_norm);
        EXPECT_NEAR(got.grad_norm / want.grad_norm, 1, 0.05);
        EXPECT_NE(tiny.weights(), plain.weights());
      }
  }
}

std::vector<float> weights_after_two_steps(const TinyRunOptions& options) {
  TinyRun tiny(options);
  for (int64_t step = 0; step < 2; ++step) EXPECT_FALSE(tiny.step(step).skipped);
  return tiny.weights();
}

// BF16 holds what is BF16: nothing is lost, and nothing changes.
TEST(SavedActivations, InTheNumbersOfComputeAreThemselves) {
  EXPECT_EQ(weights_after_two_steps(tiny_with("compute = 'bf16'\n" + all_saved_as("'bf16'"))),
            weights_after_two_steps(tiny_with("compute = 'bf16'\n")));
}

TEST(SavedActivations, HaveTheSameBitsWhenBlocksAreMadeAgainAndOnAnyThreads) {
  TinyRunOptions options = tiny_with("compute = 'bf16'\n" + all_saved_as(kPerTensor));
  const std::vector<float> want = weights_after_two_steps(options);
  options.recompute = RecomputePolicy::block;
  options.threads = 3;
  EXPECT_EQ(weights_after_two_steps(options), want);
}

// What is not finite is not made finite by a cast: the step is skipped.
TEST(SavedActivations, ThatAreNotFiniteSkipTheStep) {
  TinyRun tiny(tiny_with(all_saved_as(kPerTensor)));
  std::vector<float> row(static_cast<size_t>(tiny.model().parameters()[0].spec.cols));
  row[0] = INFINITY;
  for (int64_t token = 0; token < tiny.model().config().vocab; ++token)
    upload_row(tiny.run().backend(), tiny.model().parameters()[0].value(), token, row);
  EXPECT_TRUE(tiny.step(0).skipped);
}

/// What one block more keeps, at most.
size_t activations_of_a_block(const std::string& keys, ModelConfig model) {
  const auto most = [&](int64_t layers) {
    model.layers = layers;
    TinyRun tiny(tiny_with("compute = 'bf16'\n" + keys, model));
    return tiny.trainer().memory().most[static_cast<size_t>(MemoryKind::activations)];
  };
  const size_t a = most(4), b = most(5), c = most(6);
  EXPECT_EQ(b - a, c - b);
  return b - a;
}

// Elements of one byte in place of two, and scales.
TEST(SavedActivations, TakeTheBytesByHand) {
  ModelConfig model = tiny_llama();
  model.head_dim = 64, model.width = 128, model.ffn = 160;
  constexpr size_t kTokens = 33, kWidth = 128, kAttention = 128, kQkv = 128 + 2 * 64,
                   kHidden = 2 * 160;
  constexpr auto lines = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  constexpr size_t kLse = lines(kTokens * 2 * 4);
  const auto by_hand = [&](size_t bytes, auto scales) {
    size_t sum = kLse;
    for (const size_t cols : {kWidth, kQkv, kAttention, kWidth, kHidden})
      sum += lines(kTokens * cols * bytes) + lines(scales(cols) * 4);
    return sum;
  };
  EXPECT_EQ(activations_of_a_block("", model), by_hand(2, [](size_t) { return size_t{0}; }));
  EXPECT_EQ(activations_of_a_block(all_saved_as(kPerTensor), model),
            by_hand(1, [](size_t) { return size_t{1}; }));
  EXPECT_EQ(activations_of_a_block(all_saved_as(kBlocks), model),
            by_hand(1, [](size_t cols) { return kTokens * ((cols + 127) / 128); }));
}

}  // namespace
}  // namespace ng
