// bench kernels on the emulated card, whose memory the host cannot reach, and what bounds steps on
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "speed/kernel_speed.h"
#include "speed/step_limit.h"

namespace ng {
namespace {

TEST(CudaSpeed, KernelsAreTimedInTheCardsMemory) {
  const std::vector<KernelSpeed> speeds =
      kernel_speeds({.threads = {1},
                     .backend = [] { return make_emulated_cuda_backend({}); },
                     .rows = 64,
                     .cols = 64,
                     .rounds = 1,
                     .filter = ""});
  const auto count = [&](std::string_view part) {
    return std::ranges::count_if(
        speeds, [&](const KernelSpeed& speed) { return speed.name.find(part) != part.npos; });
  };
  for (const KernelSpeed& speed : speeds) {
    EXPECT_GT(speed.elements_per_second, 0) << speed.name;
    const bool is_attention = speed.name.find("attention") != std::string::npos;
    const bool is_backward = speed.name.find("backward") != std::string::npos;
    // 64 tokens: 65 half keys, two products of them forward, four backward.
    EXPECT_DOUBLE_EQ(speed.flops_per_second,
                     is_attention ? (is_backward ? 4 : 2) * 65 * speed.elements_per_second : 0)
        << speed.name;
  }
  EXPECT_EQ(count("encode mxfp4"), 9);
  EXPECT_EQ(count("noise"), 6);
  EXPECT_EQ(count("gradient"), 4);
  EXPECT_EQ(count("layer"), 18);
  EXPECT_EQ(count("decode") + count("unpack") + count("box-muller") + count("amax 1x"), 0)
      << "of the backend cpu alone";
}

StepWork work_on_hopper(const char* model, const char* recipe, const BenchShape& shape) {
  const auto card = make_emulated_cuda_backend({.has_units = true});
  return work_of_step(*card, cuda::card_of(90), model_preset(model), Recipe::load(recipe), shape);
}
double by(const StepWork& work, cuda::Route route) {
  return work.product_flops[static_cast<size_t>(route)];
}

// 6 of a weight and token, and 6 of a channel, layer and key.                        [gpu.md, §6]
TEST(CudaSpeed, WorkOfAStepIsThatOfTheLimitModel) {
  constexpr double kTokens = 8 * 1024, kBlocks = 12 * 12 * 768 * 768, kHead = 50257.0 * 768;
  const BenchShape shape{.batch = 8, .length = 1024};
  const StepWork bf16 = work_on_hopper("gpt2-124m", "bf16", shape);
  EXPECT_EQ(by(bf16, cuda::Route::bf16), 6 * (kBlocks + kHead) * kTokens);
  EXPECT_EQ(bf16.attention_flops, 6 * 12 * 768 * 1025.0 * kTokens);
  const StepWork fp8 = work_on_hopper("gpt2-124m", "fp8-current", shape);
  EXPECT_EQ(by(fp8, cuda::Route::fp8), 6 * kBlocks * kTokens);
  EXPECT_EQ(by(fp8, cuda::Route::bf16), 6 * kHead * kTokens);
  EXPECT_GT(fp8.bytes, bf16.bytes);
  const StepWork mxfp4 = work_on_hopper("gpt2-124m", "mxfp4-sr-rht", shape);
  EXPECT_EQ(by(mxfp4, cuda::Route::folded), 4 * kBlocks * kTokens);
  EXPECT_EQ(by(mxfp4, cuda::Route::bf16), (2 * kBlocks + 6 * kHead) * kTokens);
}

// Of one H200 it says 81,000 tokens/s, of a batch that it does not name.
TEST(CudaSpeed, ABillionInBf16IsBoundAsTheLimitModelSays) {
  CardRates rates{.name = "H200", .sm = 90, .attention = 450e12, .copy = 4.3e12};
  rates.products[static_cast<size_t>(cuda::Route::bf16)] = 788e12;
  const StepWork work = work_on_hopper("llama-1b", "bf16", {.batch = 2, .length = 2048});
  EXPECT_NEAR(4096 / limit_of(work, rates)->seconds(), 81e3, 2e3);
}

}  // namespace
}  // namespace ng
