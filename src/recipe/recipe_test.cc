// Named recipes, inheritance, precedence, phases and overrides. Bad input:
// bad_recipe_test.cc, warnings: warnings_test.cc.
#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

Recipe parsed_recipe(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

LinearRecipe middle_layer(const Recipe& recipe, int phase = 0) {
  return recipe.linear({.name = "blocks.5.mlp.up", .block = 5, .depth = 12}, phase);
}

LinearRecipe head(const Recipe& recipe, int phase = 0) {
  return recipe.linear({.name = "head", .block = -1, .depth = 12}, phase);
}

LinearRecipe all_operands(std::string_view format, Compute output) {
  LinearRecipe linear;
  for (GemmRecipe* gemm : {&linear.fprop, &linear.dgrad, &linear.wgrad})
    gemm->left = gemm->right = operand_of(format);
  linear.fprop.output = linear.dgrad.output = output;
  return linear;
}

// Every recipe of recipes.md §7, and of rivals.md §2 what its keys say.
const std::vector<std::string> kNamed = split_at_commas(
    "fp32,bf16,fp8-current,fp8-delayed,fp8-lm,mxfp8,mxfp8-e5m2,mxfp6,mxfp4-all-mxint8-head,"
    "mxfp4-nr,mxfp4-nr-rht,mxfp4-sr,mxfp4-sr-rht,mxfp4-sr-rht-fp8fwd,mxfp4-all,"
    "mxfp4-sr-rceil,nvfp4,nvfp4-late-bf16,nvfp4-all,nvfp4-no-sr,nvfp4-no-rht,"
    "nvfp4-rht-forward,nvfp4-rht-all,nvfp4-1d,nvfp4-sr-forward,nvfp4-unbiased,int8,"
    "gaussws-all,gaussws-qkv,gaussws-out,gaussws-up,gaussws-down,gaussws-od,diffq,nipq,fqt,"
    "fqt-square,naive-bf16,sr-bf16,kahan-bf16,residual-bf16,precision-aware-bf16,"
    "feedback-bf16,precision-aware-fp8,naive-fp8,sr-fp8,residual-fp8,feedback-fp8,"
    "adam-mini,adam-mini-gaussws-all,adam-mini-diffq,adam-mini-mxfp4-sr-rht,"
    "adamw-fp8-states,muon,mxfp8-nvidia,fp8-block,fp8-rowwise,fp8-rowwise-gw-hp,"
    "fp4-all-the-way,ufp4,mxfp4-det-hadamard,jetfire,jetfire-flow,switchback,tetrajet,"
    "nvfp4-fwd-bf16-bwd,mxfp8-fwd-nvfp4-bwd,nvfp4-46,quartet2,nvint4-wgrad,bf16-sr,"
    "bf16-tile,fp8-current-tile,nvfp4-tile,quartet,quartet-even,fp4-dge,averis,averis-wide,"
    "tetrajet-v2,nvfp4-row,nvfp4-row-mxfp8-bwd,nvfp4-layer-signs,bitnet,mixfp4,coat-adamw,"
    "adam8bit,bf16-attention,fp8-current-attention,mxfp4-all-attention,nvfp4-attention");

TEST(NamedRecipes, AllAreThereAndNoOthers) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(NG_SOURCE_DIR "/recipes"))
    files.push_back(file.path().stem());
  std::sort(files.begin(), files.end());
  std::vector<std::string> named = kNamed;
  std::sort(named.begin(), named.end());
  EXPECT_EQ(files, named);
}

TEST(NamedRecipes, Load) {
  for (const std::string& name : kNamed) {
    const Recipe recipe = Recipe::load(name);
    EXPECT_EQ(recipe.name(), name);
  }
}

TEST(NamedRecipes, ResolvedTextLoadsBackToAnEqualRecipe) {
  for (const std::string& name : kNamed) {
    const Recipe recipe = Recipe::load(name);
    const Recipe again = parsed_recipe(recipe.resolved_toml());
    EXPECT_EQ(again.resolved_toml(), recipe.resolved_toml());
    EXPECT_EQ(again.hash(), recipe.hash()) << name;
    EXPECT_EQ(again.phase_starts(), recipe.phase_starts());
    for (int phase = 0; phase < int(recipe.phase_starts().size()); ++phase)
      for (const int64_t block : {0, 5, 10, 11}) {
        const std::string layer = fmt::format("blocks.{}.attn.out", block);
        const LayerPlace place{.name = layer, .block = block, .depth = 12};
        EXPECT_EQ(again.linear(place, phase), recipe.linear(place, phase)) << name << layer;
      }
  }
}

TEST(Operands, AnElementMayBeMadeUp) {
  for (const std::string_view name : {"e3m3", "e2m1_ieee", "float7_e3m3", "e4m2fnuz"}) {
    const Recipe recipe = parsed_recipe(
        fmt::format("linear.fprop.input = {{format = \"mxfp4\", element = \"{}\"}}", name));
    EXPECT_EQ(middle_layer(recipe).fprop.left.element, &element_format(name));
    EXPECT_EQ(parsed_recipe(recipe.resolved_toml()).hash(), recipe.hash());
  }
}

// BF16's own word for what overflows stays with BF16; one that the user said is inherited.
TEST(Operands, AnotherElementLeavesBf16sOverflow) {
  const auto input = [](const std::string& text) {
    return middle_layer(parsed_recipe("linear.fprop.input='bf16'\n[[phase]]\nstart=0.5\n"
                                      "linear.fprop.input={" +
                                      text + "}"),
                        1)
        .fprop.left;
  };
  EXPECT_EQ(input("element='e4m3', scale='fp32'"), operand_of("fp8_e4m3"));
  EXPECT_EQ(input("element='e2m1', scale='e8m0', block=[1,32]"), operand_of("mxfp4"));
  EXPECT_EQ(input("element='e5m2', scale='fp32', overflow='special'").overflow, Overflow::special);
  EXPECT_EQ(input("element='bf16'"), operand_of("bf16"));
  EXPECT_EQ(input("rounding='stochastic'").overflow, Overflow::special);
  const Recipe said = parsed_recipe(
      "linear.fprop.input={format='fp8_e4m3', overflow='special'}\n"
      "[[phase]]\nstart=0.5\nlinear.fprop.input.element='e5m2'");
  EXPECT_EQ(middle_layer(said, 1).fprop.left.overflow, Overflow::special);
}

TEST(NamedRecipes, Mxfp4SrRhtIsThePapers) {
  const LinearRecipe linear = middle_layer(Recipe::load("mxfp4-sr-rht"));
  Operand mxfp4 = operand_of("mxfp4");
  mxfp4.rounding = Rounding::stochastic;
  mxfp4.prescale = 0.75f;
  LinearRecipe expected = all_operands("bf16", Compute::bf16);
  for (GemmRecipe* gemm : {&expected.dgrad, &expected.wgrad}) {
    gemm->left = gemm->right = mxfp4;
    gemm->hadamard = 64;
  }
  EXPECT_EQ(linear, expected);
}

TEST(NamedRecipes, Nvfp4KeepsTheLastBlocksInBf16) {
  const Recipe recipe = Recipe::load("nvfp4");
  const auto of_block = [&](int64_t block, int64_t depth) {
    const std::string name = fmt::format("blocks.{}.mlp.up", block);
    return recipe.linear({.name = name, .block = block, .depth = depth}, 0);
  };
  const LinearRecipe bf16 = all_operands("bf16", Compute::bf16);
  for (int64_t block = 0; block < 12; ++block) {
    LinearRecipe linear = of_block(block, 12);
    EXPECT_EQ(linear.fprop.left == operand_of("nvfp4"), block < 10) << block;
    linear.wgrad.hadamard_signs = HadamardSigns::random;  // without effect where hadamard is 0
    EXPECT_EQ(linear == bf16, block >= 10) << block;
  }
  EXPECT_EQ(of_block(4, 6).wgrad.hadamard, 16);
  EXPECT_EQ(of_block(5, 6).wgrad.hadamard, 0);
}

TEST(NamedRecipes, LateSwitchIsAPhase) {
  const Recipe recipe = Recipe::load("nvfp4-late-bf16");
  EXPECT_EQ(recipe.phase_starts(), (std::vector<double>{0, 0.82}));
  EXPECT_EQ(recipe.phase_at(0.81), 0);
  EXPECT_EQ(recipe.phase_at(0.82), 1);
  EXPECT_EQ(recipe.phase_at(1.0), 1);
  EXPECT_EQ(middle_layer(recipe, 0).fprop.left, operand_of("nvfp4"));
  EXPECT_EQ(middle_layer(recipe, 1).fprop.left, operand_of("bf16"));
  EXPECT_EQ(middle_layer(recipe, 1).wgrad, middle_layer(recipe, 0).wgrad);
}

TEST(NamedRecipes, LateSwitchComesAfterTheStepsBefore) {
  const Recipe recipe = Recipe::load("nvfp4-late-bf16");
  for (int64_t steps = 1; steps < 300; ++steps) {
    const int64_t before = steps_before(0.82, steps);
    if (before > 0) {
      EXPECT_EQ(recipe.phase_at(double(before - 1) / double(steps)), 0) << steps;
    }
    EXPECT_EQ(recipe.phase_at(double(before) / double(steps)), 1) << steps;
  }
  EXPECT_EQ(steps_before(0.07, 100), 7) << "0.07 * 100 is above 7";
}

TEST(Recipe, OverrideOfAllLayersToBf16IsBf16) {
  const Recipe bf16 = Recipe::load("bf16");
  const Recipe by_override =
      parsed_recipe("compute='bf16'\nlinear.dgrad.hadamard=64\n[[override]]\nlinear='bf16'");
  for (const char* name : {"blocks.0.attn.q", "blocks.7.mlp.down", "head"}) {
    const int64_t block = name[0] == 'h' ? -1 : name[7] - '0';
    const LayerPlace place{.name = name, .block = block, .depth = 8};
    EXPECT_EQ(by_override.linear(place, 0), bf16.linear(place, 0)) << name;
  }
  EXPECT_EQ(by_override.compute(0), bf16.compute(0));
}

TEST(Recipe, SeveralLinesAreTheRecipeItself) {
  const Recipe recipe =
      Recipe::load("inherit = \"nvfp4\"\nlinear.fprop.input.rounding = \"stochastic\"");
  EXPECT_NE(recipe.hash(), Recipe::load("nvfp4").hash());
  EXPECT_EQ(recipe.hash(), Recipe::parse(recipe.resolved_toml(), "again").hash());
  try {
    (void)Recipe::load("inherit = \"nvfp4\"\nlinear.fprop.inputs = \"mxfp4\"");
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().place, "recipe:2");
  }
}

using RecipeFolder = ScratchFolder;

TEST_F(RecipeFolder, APackageNamesItsOwn) {
  const size_t named = recipe_names().size();
  make_folders(folder_);
  write_file_atomically(in("mine.toml"), "linear = 'fp16'");
  set_recipe_folder(folder_);
  EXPECT_EQ(Recipe::load("mine").place(), in("mine.toml"));
  EXPECT_EQ(recipe_names().size(), named + 1);
  set_recipe_folder("");
  EXPECT_THROW((void)Recipe::load("mine"), Error);
}

TEST(Recipe, HeadFollowsComputeUnlessAnOverrideMatchesIt) {
  EXPECT_EQ(head(Recipe::load("fp32")), all_operands("fp32", Compute::fp32));
  EXPECT_EQ(head(Recipe::load("mxfp4-all")), all_operands("bf16", Compute::bf16));
  EXPECT_EQ(head(parsed_recipe("linear='mxfp4'")), all_operands("fp32", Compute::fp32));
  EXPECT_EQ(head(parsed_recipe("compute='bf16'")), all_operands("bf16", Compute::bf16));
  EXPECT_EQ(middle_layer(parsed_recipe("compute='bf16'")), all_operands("fp32", Compute::bf16));
  const Recipe named =
      parsed_recipe("compute='bf16'\n[[override]]\nlayers='head'\nlinear.fprop.weight='fp8_e4m3'");
  EXPECT_EQ(head(named).fprop.right, operand_of("fp8_e4m3"));
  EXPECT_EQ(head(named).fprop.left, operand_of("bf16"));
  EXPECT_EQ(middle_layer(named), all_operands("fp32", Compute::bf16));
  const Recipe blocks = parsed_recipe("[[override]]\nblocks=':'\nlinear='int8'");
  EXPECT_EQ(head(blocks), all_operands("fp32", Compute::fp32));
}

TEST(Recipe, OnlyLayersOfAnOverrideReachTheHead) {
  const auto both = [](const std::string& override_) {
    const Recipe recipe = parsed_recipe("[[override]]\n" + override_ + "linear='int8'");
    return std::pair(head(recipe).fprop.left == operand_of("int8"),
                     middle_layer(recipe).fprop.left == operand_of("int8"));
  };
  EXPECT_EQ(both(""), std::pair(false, true));
  EXPECT_EQ(both("blocks=':'\n"), std::pair(false, true));
  EXPECT_EQ(both("layers='*'\n"), std::pair(true, true));
  EXPECT_EQ(both("layers='head'\n"), std::pair(true, false));
  EXPECT_EQ(both("layers='*'\nblocks=':'\n"), std::pair(false, true));
  const std::string rceil =
      "inherit='mxfp4-sr'\n[[override]]\nlinear.dgrad.grad.scale_rule='rceil'";
  EXPECT_EQ(middle_layer(parsed_recipe(rceil)).dgrad.left.scale_rule, ScaleRule::rceil);
  EXPECT_EQ(head(parsed_recipe(rceil)), all_operands("bf16", Compute::bf16));
  const std::string resolved = parsed_recipe(rceil).resolved_toml();
  EXPECT_EQ(parsed_recipe(resolved).resolved_toml(), resolved);
  EXPECT_EQ(head(parsed_recipe(resolved)), all_operands("bf16", Compute::bf16));
}

TEST(Recipe, OutputFollowsComputeUnlessSet) {
  const LinearRecipe linear =
      middle_layer(parsed_recipe("compute='bf16'\nlinear.dgrad.output='fp32'"));
  EXPECT_EQ(linear.fprop.output, Compute::bf16);
  EXPECT_EQ(linear.dgrad.output, Compute::fp32);
  EXPECT_EQ(linear.wgrad.output, Compute::fp32);
}

TEST(Recipe, AnOperandWithFormatReplacesAndWithoutChanges) {
  const char* parent = "inherit='" NG_SOURCE_DIR "/recipes/mxfp4-sr.toml'\n";
  const auto grad = [&](const std::string& text) {
    return middle_layer(parsed_recipe(parent + text)).dgrad.left;
  };
  Operand changed = grad("");
  changed.scale_rule = ScaleRule::even;
  EXPECT_EQ(grad("linear.dgrad.grad.scale_rule='even'"), changed);
  EXPECT_EQ(grad("linear.dgrad.grad={scale_rule='even'}"), changed);
  EXPECT_EQ(grad("linear.dgrad.grad='mxfp4'"), operand_of("mxfp4"));
  EXPECT_EQ(grad("linear.dgrad.grad={format='mxfp4'}"), operand_of("mxfp4"));
}

TEST(Recipe, AScaleBringsItsOwnRule) {
  const auto weight = [&](const std::string& text) {
    return middle_layer(parsed_recipe("linear.fprop.weight={" + text + "}")).fprop.right;
  };
  EXPECT_EQ(weight("format='mxfp4', scale='e4m3'").scale_rule, ScaleRule::nearest);
  EXPECT_EQ(weight("format='mxfp4', scale='e4m3', scale_rule='up'").scale_rule, ScaleRule::up);
  EXPECT_EQ(weight("format='nvfp4', scale='e8m0', tensor_scale='none'").scale_rule,
            ScaleRule::floor);
}

TEST(Recipe, PhaseThenOverride) {
  const Recipe recipe = parsed_recipe(R"(
linear.fprop.input = "mxfp8_e4m3"
[[override]]
blocks = "-15%:"
linear.fprop.input.rounding = "stochastic"
[[override]]
layers = ["*.attn.*"]
blocks = "-1:"
linear = "int8"
[[phase]]
start = 0.5
compute = "bf16"
linear.fprop.input = "mxfp4"
[[phase]]
start = 0.75
linear.fprop.weight = "bf16"
)");
  const auto at = [&](std::string_view name, int64_t block, int phase) {
    return recipe.linear({.name = name, .block = block, .depth = 12}, phase).fprop;
  };
  EXPECT_EQ(at("blocks.9.attn.q", 9, 0).left, operand_of("mxfp8_e4m3"));
  Operand stochastic = operand_of("mxfp8_e4m3");
  stochastic.rounding = Rounding::stochastic;
  EXPECT_EQ(at("blocks.10.attn.q", 10, 0).left, stochastic);
  EXPECT_EQ(at("blocks.11.mlp.up", 11, 0).left, stochastic);
  EXPECT_EQ(at("blocks.11.attn.q", 11, 0).left, operand_of("int8"));
  EXPECT_EQ(at("blocks.9.attn.q", 9, 1).left, operand_of("mxfp4"));
  EXPECT_EQ(at("blocks.9.attn.q", 9, 1).output, Compute::bf16);
  stochastic = operand_of("mxfp4");
  stochastic.rounding = Rounding::stochastic;
  EXPECT_EQ(at("blocks.10.attn.q", 10, 1).left, stochastic);
  EXPECT_EQ(at("blocks.9.attn.q", 9, 2).left, operand_of("mxfp4")) << "phases add up";
  EXPECT_EQ(at("blocks.9.attn.q", 9, 2).right, operand_of("bf16"));
}

TEST(Recipe, OverridesRefineThoseBeforeThem) {
  const auto grad = [](const std::string& text, std::string_view layer) {
    return parsed_recipe(text).linear({.name = layer, .block = 3, .depth = 12}, 0).dgrad.left;
  };
  Operand stochastic = operand_of("mxfp4");
  stochastic.rounding = Rounding::stochastic;
  Operand refined = stochastic;
  const std::string mlp =
      "inherit='bf16'\n[[override]]\nlayers=['*.mlp.*']\n"
      "linear.dgrad.grad={format='mxfp4', rounding='stochastic'}\n"
      "[[override]]\nlayers=['*.mlp.up']\nlinear.dgrad.grad.";
  refined.sr_bits = 8;
  EXPECT_EQ(grad(mlp + "sr_bits=8", "blocks.3.mlp.up"), refined);
  EXPECT_EQ(grad(mlp + "sr_bits=8", "blocks.3.mlp.down"), stochastic);
  EXPECT_EQ(grad(mlp + "sr_bits=8", "blocks.3.attn.q"), operand_of("bf16"));
  refined = stochastic;
  refined.scale_rule = ScaleRule::rceil;
  EXPECT_EQ(grad(mlp + "scale_rule='rceil'", "blocks.3.mlp.up"), refined);
  const std::string attention =
      "[[override]]\nlayers=['blocks.*']\nlinear='mxfp8_e4m3'\n"
      "[[override]]\nlayers=['*.attn.*']\nlinear.dgrad.grad.rounding='stochastic'";
  refined = operand_of("mxfp8_e4m3");
  EXPECT_EQ(grad(attention, "blocks.3.mlp.up"), refined);
  refined.rounding = Rounding::stochastic;
  EXPECT_EQ(grad(attention, "blocks.3.attn.q"), refined);
}

TEST(Recipe, OverridesOfDeepModelsRefineEachOther) {
  const Recipe recipe = parsed_recipe(
      "[[override]]\nblocks='100:'\nlinear='mxfp4'\n"
      "[[override]]\nlayers='blocks.110.*'\nlinear.dgrad.grad.scale_rule='rceil'");
  const LayerPlace place{.name = "blocks.110.attn.q", .block = 110, .depth = 128};
  EXPECT_EQ(recipe.linear(place, 0).dgrad.left.scale_rule, ScaleRule::rceil);
}

// sr_bits may mean something in some phase, layer or order only: elsewhere it says nothing.
TEST(Recipe, AnOverrideNeedsAnEffectSomewhereOnly) {
  const Recipe late = parsed_recipe(
      "inherit='bf16'\n[[override]]\nlinear.dgrad.grad.sr_bits=8\n"
      "[[phase]]\nstart=0.5\nlinear.dgrad.grad={format='mxfp4', rounding='stochastic'}");
  EXPECT_EQ(middle_layer(late, 0).dgrad.left, operand_of("bf16"));
  EXPECT_EQ(middle_layer(late, 1).dgrad.left.sr_bits, 8);
  const Recipe all =
      parsed_recipe("inherit='mxfp4-sr'\n[[override]]\nlayers='*'\nlinear.dgrad.grad.sr_bits=8");
  EXPECT_EQ(middle_layer(all).dgrad.left.sr_bits, 8);
  EXPECT_EQ(head(all), all_operands("bf16", Compute::bf16));
}

TEST(Recipe, ArraysAreReplacedAsAWhole) {
  const Recipe recipe = Recipe::load("nvfp4-all");
  EXPECT_EQ(recipe.linear({.name = "blocks.11.mlp.up", .block = 11, .depth = 12}, 0).fprop.left,
            operand_of("nvfp4"));
}

}  // namespace
}  // namespace ng
