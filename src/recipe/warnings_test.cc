// What a user should know of a recipe that is not wrong.
#include <gtest/gtest.h>

#include "recipe/recipe.h"

namespace ng {
namespace {

Recipe recipe_of(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

TEST(Warnings, OfStochasticForwardOperands) {
  EXPECT_TRUE(Recipe::load("nvfp4").warnings().empty());
  EXPECT_EQ(Recipe::load("nvfp4-sr-forward").warnings().size(), 2u);
  EXPECT_EQ(recipe_of("linear.fprop.input='bf16'\n[[override]]\nblocks=':1'\n"
                      "linear.fprop.input.rounding='stochastic'")
                .warnings()
                .size(),
            1u);
}

TEST(Warnings, OfOverridesForNoLayer) {
  const std::string int8 = "[[override]]\nlinear='int8'\n";
  for (const char* where : {"layers='heads'", "layers='nothing.*'", "blocks='5:2'", "blocks=':0'"})
    EXPECT_EQ(recipe_of(int8 + where).warnings().size(), 1u) << where;
  const Recipe deep = recipe_of(int8 + "blocks='100:'");
  EXPECT_TRUE(deep.warnings().empty());
  EXPECT_TRUE(deep.warnings_at(101).empty());
  ASSERT_EQ(deep.warnings_at(100).size(), 1u);
  EXPECT_EQ(deep.warnings_at(100).front(),
            "override 1 of 1: blocks = \"100:\" are none of the model's 100");
  for (const std::string& name : recipe_names())
    EXPECT_TRUE(Recipe::load(name).warnings_at(1).empty()) << name;
}

// What a later override takes back is in force nowhere.
TEST(Warnings, OfWhatLayersGet) {
  const std::string stochastic =
      "linear='bf16'\n[[override]]\nlinear.fprop.input.rounding='stochastic'\n";
  EXPECT_EQ(recipe_of(stochastic).warnings().size(), 1u);
  EXPECT_TRUE(recipe_of(stochastic + "[[override]]\nlinear='int8'").warnings().empty());
  EXPECT_EQ(recipe_of("[[override]]\nlayers='head'\nlinear.fprop.input={format='bf16', "
                      "rounding='stochastic'}")
                .warnings()
                .size(),
            1u);
}

}  // namespace
}  // namespace ng
