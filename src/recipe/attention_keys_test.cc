// attention.probabilities: how it is read and printed, and where it may stand.
#include <gtest/gtest.h>

#include "recipe/recipe.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

TEST(AttentionKeys, AreReadAndPrinted) {
  const Recipe recipe = Recipe::parse("attention.probabilities = 'bf16'", "a.toml");
  EXPECT_EQ(recipe.settings(0).attention.probabilities, Compute::bf16);
  const Recipe again = Recipe::parse(recipe.resolved_toml(), "b.toml");
  EXPECT_EQ(again.resolved_toml(), recipe.resolved_toml());
  EXPECT_EQ(again.hash(), recipe.hash());
  const Recipe plain = Recipe::parse("attention.probabilities = 'fp32'", "a.toml");
  EXPECT_EQ(plain.settings(0).attention.probabilities, Compute::fp32);
  EXPECT_EQ(plain.hash(), Recipe::parse("", "a.toml").hash());
  EXPECT_NE(plain.hash(), recipe.hash());
}

TEST(AttentionKeys, AreOfTheWholeRun) {
  const auto said = [](std::string_view text) {
    return ng::error_of([&] { (void)Recipe::parse(text, "a.toml"); });
  };
  EXPECT_EQ(said("attention.probabilities = 'fp16'"),
            "a.toml:1: attention.probabilities: unknown \"fp16\": fp32 or bf16");
  for (const char* part : {"[[phase]]\nstart = 0.5\n", "[[override]]\nlayers = 'head'\n"})
    EXPECT_NE(said(part + std::string("attention.probabilities = 'bf16'")).find("attention"),
              std::string::npos)
        << said(part + std::string("attention.probabilities = 'bf16'"));
}

TEST(AttentionKeys, NamedRecipesOfEveryFamilyHaveIt) {
  for (const char* base : {"bf16", "fp8-current", "mxfp4-all", "nvfp4"}) {
    const Recipe recipe = Recipe::load(std::string(base) + "-attention");
    EXPECT_EQ(recipe.settings(0).attention.probabilities, Compute::bf16) << base;
    EXPECT_EQ(recipe.settings(0).linear, Recipe::load(base).settings(0).linear);
  }
}

}  // namespace
}  // namespace ng
