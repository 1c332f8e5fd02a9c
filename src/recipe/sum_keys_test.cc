// linear.*.sum: how it is read and printed, what it goes with, and where it holds.
#include <gtest/gtest.h>

#include "recipe/layer_names.h"
#include "recipe/recipe.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

constexpr std::string_view kTiles =
    "linear.fprop = {input='mxfp4', weight='mxfp4', sum='tile32'}\n"
    "linear.wgrad = {grad='mxfp4', input='mxfp4', sum='tile32'}";

TEST(SumKeys, AreReadAndPrinted) {
  const Recipe recipe = Recipe::parse(
      "linear.fprop = {input = 'nvfp4', weight = 'mxfp8_e4m3', sum = 'tile32'}", "a.toml");
  const LinearRecipe& linear = recipe.settings(0).linear;
  EXPECT_EQ(linear.fprop.sum, SumOrder::tile32);
  EXPECT_EQ(linear.dgrad.sum, SumOrder::chain);
  const Recipe again = Recipe::parse(recipe.resolved_toml(), "b.toml");
  EXPECT_EQ(again.resolved_toml(), recipe.resolved_toml());
  EXPECT_EQ(again.hash(), recipe.hash());
  const Recipe chain =
      Recipe::parse("linear.fprop = {input = 'nvfp4', weight = 'mxfp8_e4m3'}", "a.toml");
  EXPECT_NE(recipe.hash(), chain.hash());
}

TEST(SumKeys, AreRefusedBesideWhatBf16DoesNotHold) {
  const auto said = [](std::string_view text) {
    return ng::error_of([&] { (void)Recipe::parse(text, "a.toml"); });
  };
  EXPECT_EQ(
      said("linear.fprop.sum = 'tile32'"),
      "a.toml: linear.fprop.sum: \"tile32\" beside linear.fprop.input = fp32, which BF16 does "
      "not hold exactly: sum = \"chain\", or operands of at most 8 significant bits with the "
      "scales of their blocks");
  EXPECT_NE(said("linear.wgrad = {sum='tile32', grad='bf16', "
                 "input={format='fp8_e4m3', block=[1,128]}}")
                .find("linear.wgrad.sum: \"tile32\" beside linear.wgrad.input = "),
            std::string::npos);
  EXPECT_EQ(said("linear.fprop.sum = 'tile16'"),
            "a.toml:1: linear.fprop.sum: unknown \"tile16\": chain or tile32");
}

// The head's GEMMs are its own: they say so themselves.
TEST(SumKeys, HoldForTheBlocks) {
  const LayerPlace head{.name = layers::kHead, .block = -1, .depth = 2};
  const Recipe recipe =
      Recipe::parse(std::string("compute = 'bf16'\n") + std::string(kTiles), "a.toml");
  EXPECT_EQ(recipe.linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 2}, 0).wgrad.sum,
            SumOrder::tile32);
  EXPECT_EQ(recipe.linear(head, 0).wgrad.sum, SumOrder::chain);
  const Recipe with_head =
      Recipe::parse(std::string("compute = 'bf16'\n") + std::string(kTiles) +
                        "\n[[override]]\nlayers = 'head'\nlinear.fprop.sum = 'tile32'",
                    "a.toml");
  EXPECT_EQ(with_head.linear(head, 0).fprop.sum, SumOrder::tile32);
}

// A layer that becomes FP32 has to say how it is summed, too.
TEST(SumKeys, AreCheckedInOverrides) {
  const std::string said = ng::error_of([&] {
    (void)Recipe::parse(std::string(kTiles) + "\n[[override]]\nblocks = ':1'\nlinear = 'fp32'",
                        "a.toml");
  });
  EXPECT_EQ(said.find("a.toml:3: linear.fprop.sum: \"tile32\" beside linear.fprop.input = fp32, "
                      "which BF16 does not hold exactly, in blocks.0.attn.qkv"),
            0U)
      << said;
}

}  // namespace
}  // namespace ng
