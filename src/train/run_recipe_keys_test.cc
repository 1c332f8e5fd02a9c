// Keys of a recipe in a run file and in settings.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/recipe.h"
#include "train/run_config.h"

namespace ng {
namespace {

RunConfig run_saying(std::string_view toml, const std::vector<std::string>& settings = {}) {
  return RunConfig::parse(toml, "run.toml", settings);
}

std::string refusal_of_run(std::string_view toml, const std::vector<std::string>& settings = {}) {
  try {
    (void)run_saying(toml, settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RecipeKeysOfARun, KeysOfARecipeStandInATableOrInSettings) {
  const std::string line = "recipe = {inherit = \"nvfp4\", linear.wgrad.hadamard = 16}\n";
  for (const RunConfig& config :
       {run_saying("[recipe]\ninherit = 'nvfp4'\nlinear.wgrad.hadamard = 16"),
        run_saying("recipe = 'nvfp4'", {"recipe.linear.wgrad.hadamard=16"}),
        run_saying("recipe = 'bf16'", {"recipe=nvfp4", "recipe.linear.wgrad.hadamard=16"})}) {
    EXPECT_TRUE(config.resolved_toml().starts_with(line)) << config.resolved_toml();
    EXPECT_EQ(run_saying(config.resolved_toml()).resolved_toml(), config.resolved_toml());
    EXPECT_EQ(Recipe::load(config.recipe).hash(),
              Recipe::load("inherit = 'nvfp4'\nlinear.wgrad.hadamard = 16\n").hash());
  }
  EXPECT_EQ(run_saying("[recipe]\ncompute = 'bf16'", {"recipe=fp32"}).recipe, "fp32");
}

TEST(RecipeKeysOfARun, AnotherRecipeKeepsTheKeysOfSettings) {
  RunConfig config = run_saying("[recipe]\ngradient.accumulate = 'bf16'", {"recipe.compute=bf16"});
  EXPECT_NE(config.recipe.find("accumulate"), std::string::npos);
  config.set_recipe("mxfp4-sr");
  EXPECT_EQ(config.recipe, "inherit = \"mxfp4-sr\"\ncompute = \"bf16\"\n\n");
  // What is not there is no fault of a recipe that takes its place.
  const std::vector<std::string> keys = {"recipe.compute=bf16"};
  EXPECT_EQ(RunConfig::parse("recipe = 'none'", "run.toml", keys, "mxfp4-sr").recipe,
            config.recipe);
}

TEST(RecipeKeysOfARun, WrongKeysOfARecipeAreNamedWhereTheyStand) {
  EXPECT_EQ(refusal_of_run("[recipe]\nlinear.wgrad.hadamard = 17"),
            "run.toml:2: recipe.linear.wgrad.hadamard: 17: 0, 16, 32, 64 or 128");
  EXPECT_EQ(refusal_of_run("[recipe]\noverride = [{layer = 'head', linear = 'bf16'}]"),
            "run.toml:2: recipe.override.layer: unknown key: the nearest known key is "
            "recipe.override.layers");
  EXPECT_EQ(refusal_of_run("", {"linear.wgrad.hadamard=16"}),
            "--set linear.wgrad.hadamard=16: linear.wgrad.hadamard: unknown key: a recipe's keys "
            "stand below recipe: recipe.linear.wgrad.hadamard");
  EXPECT_EQ(refusal_of_run("seed = 1\n[optimizer]\nkind = 'sgd'"),
            "run.toml:2: optimizer.kind: unknown key: a recipe's keys stand below recipe: "
            "recipe.optimizer.kind");
  EXPECT_EQ(refusal_of_run("recipe = 'nvpf4'", {"recipe.compute=bf16"}),
            "run.toml:1: recipe: unknown \"nvpf4\": did you mean \"nvfp4\"? narrowgauge recipes "
            "lists all");
}

}  // namespace
}  // namespace ng
