// The keys fit, select and scale_max: how they are read, printed, refused and warned of.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/cast_words.h"
#include "recipe/operand_keys.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

Operand input_of(const std::string& table) {
  return Recipe::parse("linear.fprop.input = " + table, "a.toml").settings(0).linear.fprop.left;
}

std::string error_of(const std::string& table, const std::string& key = "linear.fprop.input") {
  try {
    (void)Recipe::parse(key + " = " + table, "a.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(FitKeys, AreReadAndPrinted) {
  const Operand one = input_of("{format='nvfp4', fit=5, scale_max=256}");
  EXPECT_EQ(one.fit, Fits{5});
  EXPECT_EQ(one.scale_max, 256);
  EXPECT_EQ(describe(one), "nvfp4 fit 5 scale_max 256");
  EXPECT_EQ(print_operand(one), "{format = \"nvfp4\", fit = 5, scale_max = 256}");
  const Operand list = input_of("{format='nvfp4', fit=[6, 4.0], select='mae'}");
  EXPECT_EQ(list.fit, (Fits{6, 4}));
  EXPECT_EQ(list.select, Select::mae);
  EXPECT_EQ(describe(list), "nvfp4 fit 6,4 select mae");
  EXPECT_EQ(input_of(print_operand(list)), list);
  EXPECT_EQ(input_of("{format='int8', fit=120}").fit, Fits{120});
}

TEST(FitKeys, BelongToScalesThatHaveThem) {
  const std::string at = "a.toml:1: linear.fprop.input.";
  const std::pair<const char*, const char*> bad[] = {
      {"{format='mxfp4', fit=5}", "fit: a fit for \"e8m0\" scales: scale_rule, or scale = "},
      {"{format='bf16', fit=5}", "fit: a fit without scale: a scale, or no fit"},
      {"{format='int8', fit=[127, 100]}",
       "fit: a list for blocks of \"row\": one fit, or block = [r, c]"},
      {"{format='nvfp4', fit=[6, 4], prescale=0.75}",
       "prescale: 0.75 beside a list of fits: 1, or one fit"},
      {"{format='nvfp4', fit=0}", "fit: 0: a number from 2^-16 to 2^16, or a list of 1 to 8"},
      {"{format='nvfp4', fit=[]}", "fit: []: a number from"},
      {"{format='nvfp4', fit=[6, 'x']}", "fit: [6, \"x\"]: a number from"},
      {"{format='nvfp4', fit=[1,2,3,4,5,6,7,8,9]}", "fit: [1, 2, 3, 4, 5, 6, 7, 8, 9]: a number"},
      {"{format='nvfp4', fit=5, select='mse'}",
       "select: has no effect here: together with a list of fits"},
      {"{format='nvfp4', fit=[6, 4], select='mean'}", "select: unknown \"mean\": mse, mae or max"},
      {"{format='fp8_e4m3', scale_max=256}",
       "scale_max: has no effect here: together with a tensor_scale"},
      {"{format='nvfp4', scale_max=500}", "scale_max: 500: a number from 1 to 448"},
  };
  for (const auto& [table, message] : bad)
    EXPECT_TRUE(error_of(table).starts_with(at + message)) << table << "\n" << error_of(table);
  for (const char* key : {"weights.storage", "optimizer.moment1", "gradient.communicate"}) {
    const std::string error = error_of("{format='fp8_e4m3', scale='pow2', fit=240}", key);
    EXPECT_EQ(error, std::string("a.toml: ") + key +
                         ".fit: fits are for operands of GEMMs: the largest element");
  }
}

TEST(FitKeys, LeaveRecipesWithoutThemAlone) {
  const std::string plain = "linear.fprop.input = 'nvfp4'";
  const Recipe recipe = Recipe::parse(plain, "a.toml");
  EXPECT_EQ(recipe.resolved_toml().find("fit"), std::string::npos);
  EXPECT_EQ(recipe.hash(),
            Recipe::parse("linear.fprop.input={format='nvfp4', scale_max=448}", "b.toml").hash());
  EXPECT_NE(recipe.hash(),
            Recipe::parse("linear.fprop.input={format='nvfp4', fit=[6, 4]}", "b.toml").hash());
}

TEST(FitKeys, WarnOfListsThatAreRoundedStochastically) {
  const std::string list = "linear.dgrad.grad = {format='nvfp4', fit=[6, 4]";
  EXPECT_TRUE(Recipe::parse(list + "}", "a.toml").warnings().empty());
  const auto warnings = Recipe::parse(list + ", rounding='stochastic'}", "a.toml").warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("linear.dgrad.grad.fit: ")) << warnings[0];
  EXPECT_TRUE(Recipe::parse("linear.dgrad.grad = {format='nvfp4', rounding='stochastic', "
                            "fit=5.647058823529412, scale_max=256}",
                            "a.toml")
                  .warnings()
                  .empty());
}

TEST(FitKeys, AreFlagsOfCasts) {
  CastWords words{.format = "nvfp4",
                  .words = {{"fit", "6,4"}, {"select", "max"}, {"scale_max", "256"}}};
  const Operand cast = words.operand();
  EXPECT_EQ(cast.fit, (Fits{6, 4}));
  EXPECT_EQ(cast.select, Select::max);
  EXPECT_EQ(cast.scale_max, 256);
  const auto refusal = [](const CastWords& refused) -> std::string {
    try {
      (void)refused.operand();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(refusal({.format = "nvfp4", .words = {{"scale_max", "0"}}})
                  .starts_with("cast: --scale-max: 0: a number from 1"));
  EXPECT_TRUE(refusal({.format = "nvfp4", .words = {{"fit", "six"}}})
                  .starts_with("cast: --fit: \"six\": a number from"));
  EXPECT_TRUE(refusal({.format = "e2m1", .words = {{"fit", "6"}}}).find("takes no scale") !=
              std::string::npos);
}

}  // namespace
}  // namespace ng
