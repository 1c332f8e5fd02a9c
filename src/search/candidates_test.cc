#include "search/candidates.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "recipe/recipe.h"
#include "support/scratch_folder.h"

namespace ng::search {
namespace {

CandidateWords words_of_grid(const std::vector<std::string>& axes) {
  return {.base = "nvfp4-all", .axes = axes, .recipes = {}, .skips_invalid = false, .folder = "r"};
}

std::string refusal_of(const CandidateWords& words) {
  return error_of([&] { (void)candidates_of(words); });
}

using CandidateFiles = ScratchFolder;

TEST(Candidates, AreTheCombinationsOfAGridOverTheBase) {
  const Candidates found = candidates_of(words_of_grid(
      {"recipe.linear.wgrad.hadamard=16,64", "recipe.linear.wgrad.hadamard_signs=random,layer"}));
  ASSERT_EQ(found.all.size(), 4u);
  const Candidate& third = found.all[2];
  EXPECT_EQ(third.label, "c3");
  EXPECT_EQ(third.recipe, "r/c3.toml");
  EXPECT_EQ(text_of(third.changes),
            "recipe.linear.wgrad.hadamard=64, recipe.linear.wgrad.hadamard_signs=random");
  const LinearRecipe linear = Recipe::load(third.loadable()).settings(0).linear;
  EXPECT_EQ(linear.wgrad.hadamard, 64);
  EXPECT_EQ(linear.fprop, Recipe::load("nvfp4-all").settings(0).linear.fprop);
}

TEST(Candidates, BracesSayAValueToSeveralKeys) {
  const Candidates found =
      candidates_of(words_of_grid({"recipe.linear.{dgrad,wgrad}.grad.rounding=nearest"}));
  const LinearRecipe linear = Recipe::load(found.all.at(0).loadable()).settings(0).linear;
  EXPECT_EQ(linear.dgrad.left.rounding, Rounding::nearest);
  EXPECT_EQ(linear.wgrad.left.rounding, Rounding::nearest);
}

TEST(Candidates, WhatTheBaseIsAlreadyIsNone) {
  const Candidates found = candidates_of(words_of_grid({"recipe.linear.wgrad.hadamard=16,32"}));
  ASSERT_EQ(found.all.size(), 1u);
  ASSERT_EQ(found.left_out.size(), 1u);
  EXPECT_EQ(found.left_out[0], "recipe.linear.wgrad.hadamard=16: the same recipe as nvfp4-all");
}

TEST(Candidates, RefusesCombinationsThatAreNoRecipeByName) {
  CandidateWords words = words_of_grid({"recipe.linear.dgrad.hadamard=0,128",
                                        "recipe.linear.dgrad.grad.rounding=nearest,eden",
                                        "recipe.linear.dgrad.weight.rounding=nearest"});
  words.base = "nvfp4-1d";
  const std::string refused = refusal_of(words);
  EXPECT_NE(refused.find("--grid: 1 of 4 combinations is no recipe: recipe.linear.dgrad.hadamard=0,"
                         " recipe.linear.dgrad.grad.rounding=eden"),
            std::string::npos)
      << refused;
  EXPECT_NE(refused.find("--skip-invalid"), std::string::npos) << refused;
  words.skips_invalid = true;
  const Candidates found = candidates_of(words);
  EXPECT_EQ(found.all.size(), 3u);
  ASSERT_EQ(found.left_out.size(), 1u);
  EXPECT_NE(found.left_out[0].find("rounding=eden"), std::string::npos) << found.left_out[0];
}

TEST(Candidates, RefusesWrongKeysAndRecipes) {
  EXPECT_NE(
      refusal_of(words_of_grid({"train.lr=1,2"})).find("--grid: train.lr: no key of a recipe"),
      std::string::npos);
  EXPECT_NE(refusal_of(words_of_grid({"recipe.linear.wgrad.hadamrd=16"})).find("hadamard"),
            std::string::npos)
      << "the nearest key";
  EXPECT_NE(refusal_of(words_of_grid({})).find("no candidate"), std::string::npos);
  CandidateWords named{.base = "nvfp4-all", .axes = {}, .recipes = {"nvfp4-all"}, .folder = "r"};
  EXPECT_NE(refusal_of(named).find("--recipes: nvfp4-all: the same recipe as nvfp4-all"),
            std::string::npos);
  named.recipes = {"bf16"};
  EXPECT_NE(refusal_of(named).find("the same recipe as bf16"), std::string::npos);
  named.recipes = {"nvfp4-alll"};
  EXPECT_NE(refusal_of(named).find("nvfp4-all"), std::string::npos) << "the nearest name";
}

TEST_F(CandidateFiles, SayTheSameRecipe) {
  CandidateWords words = words_of_grid({"recipe.linear.wgrad.hadamard=32"});
  make_folders(folder_);
  words.base = in("base.toml");
  words.folder = in("recipes");
  write_file_atomically(words.base, "inherit = \"nvfp4\"\n");
  const Candidates found = candidates_of(words);
  write_recipes(found.all);
  EXPECT_EQ(Recipe::load(in("recipes/c1.toml")).hash(),
            Recipe::load(found.all[0].loadable()).hash());
  require_own_recipes(found.all);
  write_file_atomically(in("recipes/c1.toml"), "inherit = \"ufp4\"\n");
  const std::string refused = error_of([&] { require_own_recipes(found.all); });
  EXPECT_NE(refused.find("recipes/c1.toml: is not what this search"), std::string::npos) << refused;
}

TEST_F(CandidateFiles, HaveLabelsThatNothingElseHas) {
  make_folders(in("a"));
  make_folders(in("b"));
  write_file_atomically(in("a/c1.toml"), "inherit = \"nvfp4-all\"\n");
  write_file_atomically(in("b/c1.toml"), "inherit = \"ufp4\"\n");
  write_file_atomically(in("b/c2.toml"), "inherit = \"ufp4\"\n");
  write_file_atomically(in("bf16.toml"), "inherit = \"ufp4\"\n");
  CandidateWords words = words_of_grid({"recipe.linear.wgrad.hadamard=32,64"});
  words.base = in("a/c1.toml");
  words.recipes = {in("b/c2.toml")};
  const Candidates found = candidates_of(words);
  ASSERT_EQ(found.all.size(), 3u);
  EXPECT_EQ(found.all[0].label, "c3");
  EXPECT_EQ(found.all[0].recipe, "r/c3.toml");
  EXPECT_EQ(found.all[1].label, "c4");
  EXPECT_EQ(found.all[2].label, "c2");

  words.recipes = {in("b/c1.toml")};
  EXPECT_NE(refusal_of(words).find("another recipe is called c1"), std::string::npos);
  words.recipes = {in("bf16.toml")};
  EXPECT_NE(refusal_of(words).find("another recipe is called bf16"), std::string::npos);
  words.recipes.clear();
  words.base = in("bf16.toml");
  EXPECT_NE(refusal_of(words).find("called bf16, which it is not"), std::string::npos);
}

}  // namespace
}  // namespace ng::search
