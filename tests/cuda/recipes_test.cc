// Every named recipe on the emulated card: it trains, with the bits of `ref` wherever those are
// promised and the same bits in two orders of threads, or is refused before the first step.
#include <gtest/gtest.h>

#include <map>

#include "card_runs.h"

namespace ng {
namespace {

constexpr int64_t kSteps = 3;

/// "same bits", or the line by which the recipe is refused.
std::string outcome(const std::string& recipe) {
  try {
    TinyRunOptions other = options_of(tiny_llama(), recipe, kCard);
    other.thread_order = 5;
    const Trained first = trained(options_of(tiny_llama(), recipe, kCard), kSteps),
                  second = trained(other, kSteps);
    expect_bits_of_ref(tiny_llama(), recipe, kSteps);
    return first.losses == second.losses && first.weights == second.weights ? "same bits"
                                                                            : "other bits";
  } catch (const Unsupported& lack) {
    return lack.what();
  }
}

// By name: build/release/cuda_test --gtest_also_run_disabled_tests --gtest_filter='CudaRecipes.*'
TEST(CudaRecipes, DISABLED_EachTrainsWithTheSameBitsInTwoOrdersOfThreads) {
  std::map<std::string, int> counts;
  for (const std::string& recipe : recipe_names()) {
    const std::string found = outcome(recipe);
    ++counts[found];
    fmt::print("{:<24} {}\n", recipe, found);
    EXPECT_NE(found, "other bits") << recipe;
  }
  EXPECT_GE(counts["same bits"], 70);
  for (const auto& [found, count] : counts) fmt::print("{:>4} {}\n", count, found);
}

}  // namespace
}  // namespace ng
