#include "train/self_check.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/isa.h"
#include "run/backends.h"
#include "run/plan_backend.h"

namespace ng {
namespace {

LinearRecipe layer_of(const char* recipe) {
  return Recipe::load(recipe).linear({.name = "blocks.1.mlp.up", .block = 1, .depth = 6}, 0);
}

TEST(SelfCheck, EveryInstructionSetMultipliesAsDefined) {
  const auto reference = make_backend("ref", {1});
  const auto cpu = make_backend("cpu", {2});
  std::vector<LinearRecipe> recipes;
  for (const char* name : {"fp32", "bf16", "fp8-delayed", "int8", "mxfp6", "mxfp4-all", "nvfp4-all",
                           "mxfp4-sr-rht-fp8fwd", "nvfp4-1d"})
    recipes.push_back(layer_of(name));
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    EXPECT_GT(self_check(*cpu, *reference, recipes), 9) << name_of(isa);
  }
  force_isa("auto");
}

TEST(SelfCheck, EqualGemmsRunOnce) {
  const auto reference = make_backend("ref", {1});
  const std::vector<LinearRecipe> recipes(3, layer_of("mxfp4-all"));
  EXPECT_EQ(self_check(*reference, *reference, recipes), 3);
}

TEST(SelfCheck, AWrongProductIsRefused) {
  const auto reference = make_backend("ref", {1});
  PlanBackend nothing(*reference);
  const std::vector<LinearRecipe> recipes = {layer_of("mxfp4-all")};
  EXPECT_THROW(self_check(nothing, *reference, recipes), Error);
}

}  // namespace
}  // namespace ng
