// What a user should know of a recipe that is not wrong.
#include <gtest/gtest.h>

#include "recipe/recipe.h"
#include "recipe/warnings.h"

namespace ng {
namespace {

Recipe warned_recipe(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

TEST(Warnings, OfStochasticForwardOperands) {
  EXPECT_TRUE(Recipe::load("nvfp4").warnings().empty());
  EXPECT_EQ(Recipe::load("nvfp4-sr-forward").warnings().size(), 2u);
  EXPECT_EQ(warned_recipe("linear.fprop.input='bf16'\n[[override]]\nblocks=':1'\n"
                          "linear.fprop.input.rounding='stochastic'")
                .warnings()
                .size(),
            1u);
}

TEST(Warnings, OfOverridesForNoLayer) {
  const std::string int8 = "[[override]]\nlinear='int8'\n";
  for (const char* where : {"layers='heads'", "layers='nothing.*'", "blocks='5:2'", "blocks=':0'"})
    for (const auto& [optional, count] : {std::pair("", 1u), {"\noptional=true", 0u}})
      EXPECT_EQ(warned_recipe(int8 + where + optional).warnings().size(), count) << where;
  EXPECT_TRUE(warned_recipe(int8 + "blocks='100:'").warnings().empty());
}

// What a later override takes back is in force nowhere.
TEST(Warnings, OfWhatLayersGet) {
  const std::string stochastic =
      "linear='bf16'\n[[override]]\nlinear.fprop.input.rounding='stochastic'\n";
  EXPECT_EQ(warned_recipe(stochastic).warnings().size(), 1u);
  EXPECT_TRUE(warned_recipe(stochastic + "[[override]]\nlinear='int8'").warnings().empty());
  EXPECT_EQ(warned_recipe("[[override]]\nlayers='head'\nlinear.fprop.input={format='bf16', "
                          "rounding='stochastic'}")
                .warnings()
                .size(),
            1u);
}

std::string only_warning(std::string_view toml) {
  const std::vector<std::string> warnings = warned_recipe(toml).warnings();
  EXPECT_EQ(warnings.size(), 1u) << toml;
  return warnings.empty() ? "" : warnings.front();
}

TEST(Warnings, OfStoredWeightsThatAreRoundedOnceMore) {
  const std::string stored = "weights={storage='mxfp4', update='stochastic'}\n";
  EXPECT_EQ(only_warning(stored + "linear.dgrad.weight='mxfp4'"),
            "linear.dgrad.weight: what is stored as mxfp4 is rounded once more, because dgrad sums "
            "over rows of the weight: square blocks serve both GEMMs");
  EXPECT_EQ(only_warning(stored + "linear.fprop={weight='mxfp4', hadamard=64}"),
            "linear.fprop.hadamard: what is stored as mxfp4 is transformed and rounded once more");
  EXPECT_TRUE(warned_recipe(stored + "linear.fprop.weight='mxfp4'").warnings().empty());
  EXPECT_TRUE(
      warned_recipe("weights={storage={format='mxfp4', block=[32, 32]}, update='stochastic'}\n"
                    "linear.dgrad.weight={format='mxfp4', block=[32, 32]}")
          .warnings()
          .empty());
}

TEST(Warnings, OfKeysOfUpdatesThatMeanNothing) {
  const std::string bf16 = "weights={storage='bf16', update='stochastic', ";
  EXPECT_EQ(only_warning(bf16 + "residual_bits=4}"),
            "weights.residual_bits: has no effect without update = \"residual\"");
  EXPECT_EQ(only_warning(bf16 + "rtol=0.1}"),
            "weights.rtol: has no effect without update = \"precision_aware\"");
  EXPECT_EQ(only_warning(bf16 + "max_iters=5}"),
            "weights.max_iters: has no effect without update = \"precision_aware\"");
  EXPECT_EQ(only_warning(bf16 + "search='printed'}"),
            "weights.search: has no effect without update = \"precision_aware\"");
  EXPECT_TRUE(warned_recipe("weights={storage='bf16', update='residual', residual_bits=4}")
                  .warnings()
                  .empty());
  EXPECT_TRUE(only_warning("optimizer={kind='adam_mini', moment2='bf16'}")
                  .starts_with("optimizer.moment2: adam_mini keeps one for each block of rows"));
}

TEST(Warnings, OfResidualsBesideScalesThatSaturate) {
  const std::string residual = "weights={update='residual', storage=";
  EXPECT_TRUE(only_warning(residual + "'mxfp8_e4m3'}").starts_with("weights.storage.scale_rule: "));
  EXPECT_TRUE(
      warned_recipe(residual + "{format='mxfp8_e4m3', scale_rule='rceil'}}").warnings().empty());
  EXPECT_TRUE(warned_recipe(residual + "'nvfp4'}").warnings().empty());
}

TEST(Warnings, OfPhasesThatChangeNothing) {
  const ModelLayers model{.names = {"blocks.0.attn.q", "blocks.0.mlp.up", "head"}, .depth = 1};
  const auto warnings = [&](const std::string& toml) {
    return phase_warnings(warned_recipe("linear = 'mxfp4'\n" + toml), model);
  };
  EXPECT_TRUE(warnings("").empty());
  EXPECT_TRUE(warnings("phase = [{start = 0.8, linear.fprop.input = 'bf16'}]").empty());
  EXPECT_TRUE(warnings("phase = [{start = 0.8, compute = 'bf16'}]").empty()) << "of activations";
  const std::vector<std::string> nothing = {
      "phase[2]: changes nothing: from 80 % of training on all layers stay in the numbers of the "
      "phase before"};
  EXPECT_EQ(warnings("phase = [{start = 0.5, linear = 'bf16'}, {start = 0.8, linear = 'bf16'}]"),
            nothing);
  EXPECT_EQ(warnings("phase = [{start = 0.5, linear = 'bf16'}, {start = 0.8}]"), nothing);
  EXPECT_EQ(warnings("override = [{layers = ['*'], linear = 'bf16'}]\n"
                     "phase = [{start = 0.8, linear = 'fp8_e4m3'}]")
                .size(),
            1u)
      << "overrides go over phases";
}

TEST(Warnings, OfNoiseThatNoLayerHas) {
  const std::vector<std::string> layers = {"blocks.0.attn.q", "blocks.0.mlp.up", "head"};
  const auto warnings = [&](const std::string& toml) {
    return noise_warnings(warned_recipe(toml), layers, 1);
  };
  EXPECT_TRUE(warnings("").empty());
  EXPECT_TRUE(warnings("weight_noise.kind = 'gaussws'").empty());
  const std::string kind = "weight_noise.kind = 'gaussws'\nweight_noise.layers = ";
  for (const char* none : {"['*.attn.qkv']", "['nothing.*']", "['head']"})
    EXPECT_EQ(warnings(kind + none),
              (std::vector<std::string>{
                  "weight_noise.layers: match no layer of this model, so nothing has noise"}));
  const std::string dgrad = "\nlinear.dgrad.weight = 'fp8_e4m3'";
  EXPECT_TRUE(warnings(dgrad).empty());
  const std::vector<std::string> rounded = warnings(kind + "['*.mlp.*']" + dgrad);
  ASSERT_EQ(rounded.size(), 1u);
  EXPECT_TRUE(
      rounded.front().starts_with("linear.dgrad.weight: fp8_e4m3 rounds the noisy weight of "
                                  "blocks.0.mlp.up once more"))
      << rounded.front();
}

}  // namespace
}  // namespace ng
