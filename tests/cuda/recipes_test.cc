// Every named recipe trains on the emulated card, with the bits of `ref` wherever those are
// promised and the same bits in two orders of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "card_runs.h"

namespace ng {
namespace {

constexpr int64_t kSteps = 3;

// By name: build/release/cuda_test --gtest_also_run_disabled_tests --gtest_filter='CudaRecipes.*'
TEST(CudaRecipes, DISABLED_EachTrainsWithTheSameBitsInTwoOrdersOfThreads) {
  for (const std::string& recipe : recipe_names()) {
    TinyRunOptions other = options_of(tiny_llama(), recipe, kCard);
    other.thread_order = 5;
    const Trained first = trained(options_of(tiny_llama(), recipe, kCard), kSteps),
                  second = trained(other, kSteps);
    EXPECT_EQ(first.losses, second.losses) << recipe;
    EXPECT_EQ(first.weights, second.weights) << recipe;
    expect_bits_of_ref(tiny_llama(), recipe, kSteps);
    fmt::print("{:<24} {:.6f} {:.6f} {:.6f}\n", recipe, first.losses[0], first.losses[1],
               first.losses[2]);
  }
}

// The table of docs/results/gpu.md.
TEST(CudaRecipes, DISABLED_EachStaysBesideTheCpuForTwentySteps) {
  for (const std::string& recipe : recipe_names()) {
    const Trained card = trained(options_of(tiny_llama(), recipe, kCard), 20),
                  cpu = trained(options_of(tiny_llama(), recipe, "cpu"), 20);
    double off = 0;
    for (size_t i = 0; i < cpu.losses.size(); ++i)
      off = std::max(off, std::fabs(card.losses[i] - cpu.losses[i]));
    // One rounding that goes to the neighbour is enough for two runs of so small a model to part.
    EXPECT_LE(off, 0.1) << recipe;
    fmt::print("| `{}` | {:.6f} | {:.6f} | {:.1e} |\n", recipe, card.losses.back(),
               cpu.losses.back(), off);
  }
}

}  // namespace
}  // namespace ng
