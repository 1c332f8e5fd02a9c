// What one layer gets besides the numbers of its GEMMs: how its weights persist, and their noise.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

Recipe layer_recipe(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

/// Of a model of 12 blocks.
LayerRecipe layer(const Recipe& recipe, std::string_view name, int64_t block = -1) {
  return recipe.layer({.name = name, .block = block, .depth = 12}, 0);
}

TEST(LayerRecipe, OfFp32IsTheDefault) {
  EXPECT_EQ(layer(Recipe::load("fp32"), "blocks.5.mlp.up", 5), LayerRecipe());
}

TEST(LayerRecipe, OverridesReachWeightsAndNoise) {
  const Recipe recipe = layer_recipe(
      "[[override]]\nblocks='-1:'\nweights={storage='bf16', update='kahan'}\n"
      "[[override]]\nlayers='*.mlp.up'\nweight_noise={kind='gaussws', b_init=5}");
  const LayerRecipe last = layer(recipe, "blocks.11.mlp.up", 11);
  EXPECT_EQ(last.weights.storage, operand_of("bf16"));
  EXPECT_EQ(last.weights.update, UpdateRule::kahan);
  EXPECT_EQ(last.weight_noise.kind, NoiseKind::gaussws);
  EXPECT_EQ(last.weight_noise.b_init, 5);
  EXPECT_EQ(last.linear, layer(recipe, "blocks.0.mlp.up", 0).linear);
  EXPECT_EQ(layer(recipe, "blocks.0.mlp.up", 0).weights, LayerRecipe().weights);
  EXPECT_EQ(layer(recipe, "blocks.0.mlp.up", 0).weight_noise, last.weight_noise);
  EXPECT_EQ(layer(recipe, "blocks.0.mlp.down", 0), LayerRecipe());
  EXPECT_EQ(layer(recipe, "head"), LayerRecipe());
}

TEST(LayerRecipe, NoiseIsThatOfTheLayersItMeans) {
  const auto kind = [recipe = Recipe::load("gaussws-od")](std::string_view name, int64_t block) {
    return layer(recipe, name, block).weight_noise.kind;
  };
  EXPECT_EQ(kind("blocks.3.attn.out", 3), NoiseKind::gaussws);
  EXPECT_EQ(kind("blocks.3.attn.q", 3), NoiseKind::none);
  const Recipe all = layer_recipe("weight_noise.kind='diffq'");
  EXPECT_EQ(layer(all, "blocks.3.attn.q", 3).weight_noise.kind, NoiseKind::diffq);
  EXPECT_EQ(layer(all, "head").weight_noise.kind, NoiseKind::none);
}

TEST(LayerRecipe, WeightsWithScalesAreThoseOfTheBlocks) {
  const Recipe fp8 = Recipe::load("fp8-lm"), bf16 = Recipe::load("naive-bf16");
  EXPECT_EQ(layer(fp8, "blocks.3.attn.q", 3).weights, fp8.settings(0).weights);
  for (const char* name : {"embed", "pos", "head"}) {
    EXPECT_EQ(layer(fp8, name).weights, LayerRecipe().weights) << name;
    EXPECT_EQ(layer(bf16, name).weights.storage, operand_of("bf16")) << name;
  }
  const Recipe named =
      layer_recipe("inherit='fp8-lm'\n[[override]]\nlayers='head'\nweights.storage='fp8_e4m3'");
  EXPECT_EQ(layer(named, "head").weights.storage, operand_of("fp8_e4m3"));
  EXPECT_EQ(layer(named, "embed").weights, LayerRecipe().weights);
}

// An embedding has no GEMM, but is stored.
TEST(LayerRecipe, AnOverrideOfTheEmbeddingsStorageMeansALayer) {
  const std::string embed = "[[override]]\nlayers='embed'\n";
  EXPECT_TRUE(
      layer_recipe(embed + "weights={storage='fp8_e4m3', update='stochastic'}").warnings().empty());
  EXPECT_EQ(layer_recipe(embed + "linear='mxfp4'").warnings().size(), 1u);
}

// Of a reference beside the model that is trained: its GEMMs, and nothing that moves.
TEST(LayerRecipe, FrozenKeepsGemmsAndNothingThatMoves) {
  const LayerPlace block{.name = "blocks.0.mlp.up", .block = 0, .depth = 2};
  const LayerPlace embed{.name = "embed", .block = -1, .depth = 2};
  const Recipe recipe = Recipe::parse(
      "linear.fprop = { input={format='fp8_e4m3', scaling='delayed'}, weight='fp8_e4m3' }\n"
      "weights = { storage='bf16', master='fp32' }\n"
      "gradient.communicate = 'mxfp8_e4m3'\n",
      "t.toml");
  const LayerRecipe trained = recipe.layer(block, 0);
  const Recipe frozen = recipe.frozen({});
  EXPECT_TRUE(frozen.is_frozen());
  EXPECT_FALSE(recipe.is_frozen());
  const LayerRecipe kept = frozen.layer(block, 0);
  EXPECT_EQ(kept.weights, (WeightStorage{.storage = operand_of("bf16"), .is_frozen = true}));
  EXPECT_EQ(kept.linear, trained.linear);
  EXPECT_TRUE(frozen.is_stored_as_trained());
  EXPECT_FALSE(recipe.is_stored_as_trained());
  EXPECT_FALSE(recipe.frozen(operand_of("bf16")).is_stored_as_trained());
  EXPECT_TRUE(frozen.settings(0).gradient.communicate.is_fp32());
  EXPECT_EQ(frozen.layer(embed, 0).weights.storage, operand_of("bf16"));

  const Recipe narrow = recipe.frozen(operand_of("nvfp4"));
  EXPECT_EQ(narrow.layer(block, 0).weights.storage, operand_of("nvfp4"));
  EXPECT_TRUE(narrow.layer(embed, 0).weights.storage.is_fp32()) << "it has scales";
  EXPECT_EQ(recipe.frozen(operand_of("bf16")).layer(embed, 0).weights.storage, operand_of("bf16"));
  const Recipe noisy = Recipe::parse("weight_noise.kind = 'gaussws'", "t.toml");
  EXPECT_NE(noisy.layer(block, 0).weight_noise.kind, NoiseKind::none);
  EXPECT_EQ(noisy.frozen({}).layer(block, 0).weight_noise.kind, NoiseKind::none);
}

TEST(LayerRecipe, NipqLearnsTwoToFourteenBitsForATensor) {
  const std::string nipq = "weight_noise = { kind = 'nipq', ";
  const std::pair<const char*, const char*> refused[] = {
      {"layers = '*' }",
       "weight_noise.block: [32, 32] beside nipq, which learns for whole tensors"},
      {"block = 'tensor', b_init = 2 }",
       "weight_noise.b_init: 2 beside nipq: above 2 and below 14"},
      {"block = 'tensor', b_target = 14.0 }", "weight_noise.b_target: 14 beside nipq: above 2"}};
  for (const auto& [rest, says] : refused) try {
      (void)layer_recipe(nipq + rest);
      ADD_FAILURE() << rest;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
}

TEST(LayerRecipe, NoisyWeightsAreReadAsTheyAreCast) {
  const std::string noise = "inherit = 'gaussws-all'\nweight_noise.cast = ";
  const std::pair<std::string, const char*> kWrong[] = {
      {"'fp8_e4m3'",
       "weight_noise.cast: fp8_e4m3 of blocks.0.attn.qkv, which linear.fprop.weight, bf16, would "
       "round once more: at most 8 bits with powers of two as scales, or linear.fprop.weight = "
       "\"fp32\""},
      {"'mxfp8_e4m3'\nlinear.fprop.weight = 'mxfp4'",
       "weight_noise.kind: noise on blocks.0.attn.qkv, whose linear.fprop.weight is mxfp4: "
       "linear.fprop.weight = \"bf16\", \"fp32\" or what weight_noise.cast says"},
      {"{ format = 'mxfp8_e4m3', prescale = 0.5 }",
       "weight_noise.cast.prescale: no GEMM undoes it for a stored tensor: 1.0"}};
  for (const auto& [cast, problem] : kWrong) try {
      (void)layer(Recipe::parse(noise + cast, "t.toml"), "blocks.0.attn.q", 0);
      ADD_FAILURE() << cast;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
  const Recipe table = Recipe::parse(noise + "'table'\nlinear.fprop.weight = 'fp32'", "t.toml");
  EXPECT_TRUE(layer(table, "blocks.0.attn.q", 0).weight_noise.cast.is_fp32());
  EXPECT_TRUE(Recipe::parse(table.resolved_toml(), "t.toml").hash() == table.hash());
}

TEST(SavedRecipe, IsRoundedToNearestByStoredCasts) {
  const Recipe fp8 = Recipe::parse(
      "saved.norm = 'fp8_e4m3'\nsaved.activation.block = [1, 16]\n"
      "saved.activation.format = 'fp8_e5m2'",
      "t.toml");
  EXPECT_EQ(fp8.settings(0).saved.norm, operand_of("fp8_e4m3"));
  EXPECT_EQ(fp8.settings(0).saved.activation.block.cols, 16);
  EXPECT_TRUE(fp8.settings(0).saved.attention.is_fp32());
  EXPECT_EQ(Recipe::parse(fp8.resolved_toml(), "t.toml").hash(), fp8.hash());
  EXPECT_NE(Recipe::parse("", "t.toml").hash(), fp8.hash());
  const std::pair<const char*, const char*> kWrong[] = {
      {"saved.norm = { format = 'fp8_e4m3', rounding = 'stochastic' }",
       "saved.norm.rounding: what is saved for backward draws nothing: \"nearest\""},
      {"saved.attention = { format = 'fp8_e4m3', scaling = 'delayed' }",
       "saved.attention.scaling: a stored tensor is scaled when it is stored: \"current\""},
      {"saved.activation = { element = 'e4m3', scale = 'none' }",
       "saved.activation.scale: e4m3 elements without scale"},
      {"[[phase]]\nstart = 0.5\nsaved.norm = 'fp8_e4m3'", "cannot change in the middle of a run"},
      {"[[override]]\nlayers = '*'\nsaved.norm = 'fp8_e4m3'", "saved"}};
  for (const auto& [text, problem] : kWrong) try {
      (void)Recipe::parse(text, "t.toml");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
}

TEST(NarrowOutputs, AreStoredCastsOfTheBlocksLayers) {
  const std::string flow =
      "compute = 'bf16'\nlinear.fprop.output = { format = 'int8', block = [32, 32] }\n"
      "linear.dgrad.output = { format = 'int8', block = [32, 32], rounding = 'stochastic' }\n";
  const Recipe recipe = Recipe::parse(flow, "t.toml");
  const LinearRecipe of_block = layer(recipe, "blocks.0.attn.q", 0).linear;
  EXPECT_EQ(of_block.fprop.narrow_output.element->short_name, "int8");
  EXPECT_EQ(of_block.fprop.output, Compute::bf16);
  EXPECT_EQ(of_block.dgrad.narrow_output.rounding, Rounding::stochastic);
  EXPECT_FALSE(of_block.wgrad.narrows_output());
  EXPECT_FALSE(layer(recipe, "head", -1).linear.fprop.narrows_output());
  EXPECT_EQ(Recipe::parse(recipe.resolved_toml(), "t.toml").hash(), recipe.hash());
  const Recipe late = Recipe::parse(flow + "[[phase]]\nstart = 0.5\nlinear = 'bf16'", "t.toml");
  EXPECT_TRUE(
      late.linear({.name = "blocks.0.attn.q", .block = 0, .depth = 2}, 0).fprop.narrows_output());
  EXPECT_FALSE(
      late.linear({.name = "blocks.0.attn.q", .block = 0, .depth = 2}, 1).fprop.narrows_output());
  const Recipe words = Recipe::parse("linear.fprop.output = {format = 'bf16'}", "t.toml");
  EXPECT_EQ(layer(words, "blocks.0.attn.q", 0).linear.fprop.output, Compute::fp32);
  EXPECT_EQ(Recipe::parse(words.resolved_toml(), "t.toml").hash(), words.hash());
}

TEST(NarrowOutputs, AreRefusedWhereNoneCanBe) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"linear.fprop.output = 'int9'", "linear.fprop.output: unknown \"int9\""},
      {"linear.wgrad.output = 'int8'", "linear.wgrad.output"},
      {"linear.fprop.output = {format = 'fp8_e4m3', scaling = 'delayed'}",
       "linear.fprop.output.scaling: a stored tensor is scaled when it is stored: \"current\""},
      {"linear.dgrad.output = {format = 'nvfp4', rounding = 'eden'}",
       "linear.dgrad.output.rounding: \"eden\" without the transform of a GEMM"},
      {"[[phase]]\nstart = 0.5\nlinear.fprop.output = {format = 'int8', prescale = 0.5}",
       "linear.fprop.output.prescale: no GEMM undoes it for a stored tensor: 1.0"},
      {"[[override]]\nlayers = ['head']\nlinear.fprop.output = 'int8'",
       "linear.fprop.output: int8 of the head, which works in pieces, in head"}};
  for (const auto& [text, problem] : kWrong) try {
      const Recipe recipe = Recipe::parse(text, "t.toml");
      (void)layer(recipe, "head", -1);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace ng
