// What ranks compare before they train sees what one of them computes otherwise.
#include "train/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/thread_ranks.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

Recipe small_recipe(const std::string& name) {
  return Recipe::parse("name = 'small'\ninherit = '" + name + "'\n", "test.toml");
}

TEST(SmallRun, HasItsOwnBitsForEveryRecipe) {
  std::vector<std::string> seen;
  for (const std::string name : {"fp32", "bf16", "mxfp4-sr-rht", "nvfp4", "fp8-lm", "gaussws-all",
                                 "nipq", "adamw-fp8-states", "muon", "precision-aware-bf16"}) {
    const Recipe recipe = small_recipe(name);
    const std::string bits = bits_of_small_run("cpu", tiny_llama(), recipe);
    EXPECT_EQ(bits_of_small_run("cpu", tiny_llama(), recipe), bits) << name;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), bits), 0) << name;
    seen.push_back(bits);
  }
  EXPECT_NE(bits_of_small_run("cpu", tiny_gpt2(), small_recipe("fp32")), seen.front());
}

// Sums of the scalar reference are others than those of the cpu backend.
TEST(SmallRun, ARankThatComputesOtherwiseIsRefusedOnAll) {
  run_ranks(3, [&](Comm& comm) {
    EXPECT_NO_THROW(require_equal_bits(comm, "cpu", tiny_llama(), small_recipe("fp32")));
    const char* const mine = comm.rank() == 1 ? "ref" : "cpu";
    EXPECT_THROW(require_equal_bits(comm, mine, tiny_llama(), small_recipe("fp32")), Error);
  });
}

}  // namespace
}  // namespace ng
