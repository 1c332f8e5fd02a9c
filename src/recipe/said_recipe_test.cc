#include "recipe/said_recipe.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

using Words = std::vector<std::string>;

/// The same as TOML of its own.
void expect_same(const std::string& recipe, const Words& settings, const std::string& toml) {
  const std::string text = recipe_with(recipe, settings);
  EXPECT_EQ(Recipe::load(text).hash(), Recipe::parse(toml, "same.toml").hash()) << text;
  EXPECT_EQ(recipe_with(text, {}), text);
}

std::string error_of(const std::string& recipe, const Words& settings) {
  try {
    return recipe_with(recipe, settings);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(SaidRecipe, WithoutKeysIsTheNameThatWasSaid) {
  EXPECT_EQ(recipe_with("nvfp4", {}), "nvfp4");
  EXPECT_EQ(SaidRecipe().text(), "fp32");
}

TEST(SaidRecipe, HasKeysOverANamedRecipe) {
  const std::string text = recipe_with("nvfp4", Words{"recipe.linear.wgrad.hadamard=32"});
  EXPECT_EQ(text, "inherit = \"nvfp4\"\nlinear.wgrad.hadamard = 32\n\n");
  EXPECT_EQ(Recipe::load(text).name(), "nvfp4 with linear.wgrad.hadamard = 32");
  expect_same("nvfp4", {"recipe.linear.wgrad.hadamard=32"},
              "inherit = 'nvfp4'\nlinear.wgrad.hadamard = 32");
  expect_same("fp32", {"recipe.name=mine", "recipe.weights.storage=bf16"},
              "weights.storage = 'bf16'");
}

TEST(SaidRecipe, LaterKeysGoOverThoseBefore) {
  expect_same("bf16",
              {"recipe.linear=mxfp4", "recipe.linear.wgrad.grad.rounding=stochastic",
               "recipe.linear.wgrad.hadamard=64"},
              "inherit = 'bf16'\n"
              "linear.fprop = {input = 'mxfp4', weight = 'mxfp4'}\n"
              "linear.dgrad = {grad = 'mxfp4', weight = 'mxfp4'}\n"
              "linear.wgrad = {grad = {format = 'mxfp4', rounding = 'stochastic'}, input = 'mxfp4',"
              " hadamard = 64}");
  // `linear` sets hadamard = 0; a key that another one makes idle is gone with it.
  expect_same("mxfp4-sr-rht", {"recipe.linear.wgrad.hadamard=128", "recipe.linear=mxfp8_e4m3"},
              "inherit = 'mxfp4-sr-rht'\nlinear = 'mxfp8_e4m3'");
  expect_same("mxfp4-sr",
              {"recipe.linear.dgrad.grad.sr_bits=8", "recipe.linear.dgrad.grad.rounding=nearest"},
              "inherit = 'mxfp4-sr'\nlinear.dgrad.grad = {rounding = 'nearest'}");
}

TEST(SaidRecipe, TakesListsAndOtherTexts) {
  expect_same("nvfp4", {"recipe.override=[]", "recipe.phase=[{start=0.5, linear='bf16'}]"},
              "inherit = 'nvfp4'\noverride = []\nphase = [{start = 0.5, linear = 'bf16'}]");
  expect_same("inherit = 'nvfp4'\nlinear.wgrad.hadamard = 64\n",
              {"recipe.gradient.accumulate=bf16"},
              "inherit = 'nvfp4'\nlinear.wgrad.hadamard = 64\ngradient.accumulate = 'bf16'");
  expect_same("nvfp4", {"recipe.inherit=mxfp4-sr", "recipe.linear.dgrad.hadamard=16"},
              "inherit = 'mxfp4-sr'\nlinear.dgrad.hadamard = 16");
}

TEST(SaidRecipe, ChangesOneOfAList) {
  expect_same("nvfp4-late-bf16",
              {"recipe.phase[1].start=0.9", "recipe.phase[1].linear.fprop.input.overflow=saturate"},
              "inherit = 'nvfp4'\n"
              "phase = [{start = 0.9, linear.fprop = {input = {format = 'bf16', overflow = "
              "'saturate'}, weight = 'bf16'}}]");
  expect_same("nvfp4", {"recipe.override[1].blocks=-2:", "recipe.linear.wgrad.hadamard=32"},
              "inherit = 'nvfp4'\nlinear.wgrad.hadamard = 32\n"
              "override = [{blocks = '-2:', linear = 'bf16'}]");
  EXPECT_EQ(error_of("nvfp4", {"recipe.override[2].blocks=-2:"}),
            "--set recipe.override[2].blocks=-2:: recipe.override[2]: the recipe has 1: 1 to 1");
  EXPECT_EQ(error_of("nvfp4", {"recipe.override[1].linear.wgrad.hadamard=16"}),
            "--set recipe.override[1].linear.wgrad.hadamard=16: recipe.override[1]: linear is "
            "\"bf16\" there: linear as a whole: a format name, or a table of fprop, dgrad and "
            "wgrad");
}

TEST(SaidRecipe, NamesTheSettingThatIsWrong) {
  EXPECT_EQ(
      error_of("nvfp4", {"recipe.linear.wgrad.hadamard=17"}),
      "--set recipe.linear.wgrad.hadamard=17: recipe.linear.wgrad.hadamard: 17: 0, 16, 32, 64 "
      "or 128");
  EXPECT_EQ(error_of("nvfp4", {"recipe.linear.wgrad.hadamrd=16"}),
            "--set recipe.linear.wgrad.hadamrd=16: recipe.linear.wgrad.hadamrd: unknown key: the "
            "nearest known key is recipe.linear.wgrad.hadamard");
  EXPECT_EQ(error_of("nvfp4", {"linear.wgrad.hadamard=16"}),
            "--set linear.wgrad.hadamard=16: linear.wgrad.hadamard: unknown key: a recipe's keys "
            "stand below recipe: recipe.linear.wgrad.hadamard");
  EXPECT_EQ(error_of("nvfp4", {"recipe=mxfp4"}),
            "--set recipe=mxfp4: recipe: \"mxfp4\": keys of a recipe: "
            "recipe.linear.wgrad.hadamard=16");
  EXPECT_EQ(
      error_of("nvpf4", {"recipe.compute=bf16"}),
      "--recipe: recipe: unknown \"nvpf4\": did you mean \"nvfp4\"? narrowgauge recipes lists "
      "all");
  EXPECT_EQ(error_of("", {"recipe.compute=bf16"}), "--set: of which recipe?: name one beside it");
  EXPECT_NE(error_of("fp32", {"recipe.phase=[{start=0.5, optimizer.kind='sgd'}]"})
                .find("recipe.phase.optimizer.kind: cannot change in the middle of a run"),
            std::string::npos);
}

TEST(SaidRecipe, ErrorsOfItsTextAreAtTheSettingThatSaysTheKey) {
  const Words settings = {"train.steps=5", "recipe.override=[]", "recipe.weights.master = fp16"};
  const auto place = [&](const char* at, const char* key) {
    return at_setting({.place = at, .key = key, .problem = "wrong"}, settings).place;
  };
  EXPECT_EQ(place("recipe:2", "override[1].layers"), "--set recipe.override=[]");
  EXPECT_EQ(place("recipe", "weights.master"), "--set recipe.weights.master = fp16");
  EXPECT_EQ(place("recipe", "weights"), "--set recipe.weights.master = fp16");
  EXPECT_EQ(place("recipe:1", "weights.update"), "recipe") << "nobody wrote line 1";
  EXPECT_EQ(place("recipe.toml:2", "override[1].layers"), "recipe.toml:2");
  EXPECT_EQ(place("run.toml:2", "train.steps"), "run.toml:2");
}

}  // namespace
}  // namespace ng
