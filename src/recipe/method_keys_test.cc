// Keys of published methods: from, scale_of, rounding = "eden", tensor_block, FP8 without scales.
// How they are read, printed, refused and warned of; what they make is in tests/golden/linear.
#include <gtest/gtest.h>

#include "recipe/cast_words.h"
#include "recipe/operand_keys.h"
#include "recipe/recipe.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

struct BadMethod {
  std::string_view toml, message;
};

constexpr BadMethod kBadMethods[] = {
    {"weights.storage = {format='fp8_e4m3', scale='none'}",
     "a.toml: weights.storage.scale: e4m3 elements without scale: a scale; only fp32, bf16 and "
     "fp16 go without"},
    {"linear.fprop.input = {format='mxfp4', from='fprop'}",
     "a.toml:1: linear.fprop.input.from: not a key of this operand: in linear.dgrad.weight or "
     "linear.wgrad.input"},
    {"linear.dgrad.grad = {format='nvfp4', rounding='eden'}",
     "a.toml: linear.dgrad.grad.rounding: \"eden\" in blocks of 1x16 beside linear.dgrad.hadamard "
     "= 0: a transform of whole blocks"},
    {"linear.dgrad = {grad={format='mxfp4', rounding='eden'}, hadamard=32}",
     "a.toml:1: linear.dgrad.grad.rounding: \"eden\" for \"e8m0\" scales: scale = \"e4m3\""},
    {"communication.weights = {format='fp8_e4m3', scale='none'}",
     "a.toml: communication.weights.scale: e4m3 elements without scale: a scale; only fp32, bf16 "
     "and fp16 go without"},
    {"linear.fprop.input = {format='int8', scale_of='rms'}",
     "a.toml:1: linear.fprop.input.scale_of: \"rms\" for \"fp32\" scales of int8 elements"},
    {"linear.fprop.input = {format='mxfp4', dge_k=3}",
     "a.toml:1: linear.fprop.input.dge_k: has no effect here: together with gradient = \"dge\""},
    {"linear.dgrad.grad = {format='mxfp4', gradient='clip'}",
     "a.toml:1: linear.dgrad.grad.gradient: not a key of this operand: in linear.fprop.input or "
     "linear.fprop.weight"},
    {"linear.fprop.weight = {format='bf16', gradient='clip'}",
     "a.toml:1: linear.fprop.weight.gradient: \"clip\" for bf16 elements: \"straight\", or "
     "elements of at most 8 bits"},
    {"linear.fprop.weight = {format='mxfp4', gradient='dge', subnormals='flush'}",
     "a.toml:1: linear.fprop.weight.gradient: \"dge\" beside subnormals = \"flush\""},
    {"linear.fprop = {input={format='mxfp4', gradient='clip'}, hadamard=32}",
     "a.toml: linear.fprop.input.gradient: \"clip\" beside linear.fprop.hadamard = 32, and "
     "linear.dgrad.weight is made of the original: linear.dgrad.weight.from = \"fprop\""},
    {"linear.fprop = {weight={format='mxfp4', gradient='dge'}, hadamard=32}",
     "a.toml: linear.fprop.weight.gradient: \"dge\" beside linear.fprop.hadamard = 32, and "
     "linear.wgrad.input is made of the original: linear.wgrad.input.from = \"fprop\""},
    {"weights.storage = {format='nvfp4', tensor_block='row'}",
     "a.toml:1: weights.storage.tensor_block: not a key of this operand: in linear.fprop.input"},
    {"linear.fprop.input = {format='mxfp4', tensor_block='row'}",
     "a.toml:1: linear.fprop.input.tensor_block: has no effect here: together with a tensor_scale"},
    {"linear.fprop.input = {format='nvfp4', tensor_block=[1, 0]}",
     "a.toml:1: linear.fprop.input.tensor_block: [1, 0]: \"tensor\", \"row\" or [r, c] of whole "},
    {"linear.fprop.input = {format='nvfp4', tensor_block=[1, 24]}",
     "a.toml:1: linear.fprop.input.tensor_block: [1, 24] beside blocks of [1, 16]: whole blocks"},
    {"linear.fprop.input = {format='nvfp4', block=[16, 16], tensor_block='row'}",
     "a.toml:1: linear.fprop.input.tensor_block: \"row\" beside blocks of [16, 16]: whole blocks"},
    {"linear.dgrad = {grad={format='nvfp4', rounding='eden', tensor_block=[1, 128]}, hadamard=32}",
     "a.toml:1: linear.dgrad.grad.tensor_block: [1, 128] beside \"eden\": \"tensor\" or \"row\""},
    {"linear.fprop = {input={format='nvfp4', tensor_block=[1, 32]}, sum='tile32'}",
     "a.toml: linear.fprop.sum: \"tile32\" beside linear.fprop.input = nvfp4 tensor_block 1x32, "},
    {"linear.fprop.input = {format='nvfp4', element=['int4', 'e2m1']}",
     "a.toml:1: linear.fprop.input.element: [\"int4\", \"e2m1\"]: [\"e2m1\", \"int4\"], or one "
     "element"},
    {"linear.fprop.input = {format='nvfp4', element=['e2m1', 'int4', 3]}",
     "a.toml:1: linear.fprop.input.element: [\"e2m1\", \"int4\", 3]: [\"e2m1\", \"int4\"], or "
     "one "},
    {"linear.fprop.input = {format='mxfp4', element=['e2m1', 'int4']}",
     "a.toml:1: linear.fprop.input.element: a list for \"e8m0\" scales: one element, or scale = "
     "\"e4m3\""},
    {"linear.fprop.input = {format='nvfp4', element=['e2m1', 'int4'], fit=[6, 4]}",
     "a.toml:1: linear.fprop.input.fit: a list beside a list of elements: one fit, or one element"},
    {"linear.fprop.input = {format='nvfp4', element=['e2m1', 'int4'], prescale=0.75}",
     "a.toml:1: linear.fprop.input.prescale: 0.75 beside a list of elements: 1, or one element"},
    {"linear.fprop.input = {format='nvfp4', element=['e2m1', 'int4'], subnormals='flush'}",
     "a.toml:1: linear.fprop.input.subnormals: \"flush\" beside a list of elements: \"keep\", or"},
    {"linear.fprop.input = {format='nvfp4', element=['e2m1', 'int4'], gradient='clip'}",
     "a.toml:1: linear.fprop.input.gradient: \"clip\" beside a list of elements: \"straight\", or"},
    {"linear.dgrad = {grad={format='nvfp4', element=['e2m1', 'int4'], rounding='eden'}, "
     "hadamard=32}",
     "a.toml:1: linear.dgrad.grad.rounding: \"eden\" beside a list of elements: \"nearest\" or"},
    {"weights.storage = {format='nvfp4', element=['e2m1', 'int4']}",
     "a.toml: weights.storage.element: a list of elements, which are for operands of GEMMs: one"},
    {"linear.fprop = {input={format='nvfp4', element=['e2m1', 'int4']}, sum='tile32'}",
     "a.toml: linear.fprop.sum: \"tile32\" beside linear.fprop.input = nvfp4 element e2m1,int4, "},
    {"linear.fprop.input = {format='int4', element='ternary', scale='e8m0', block=[1, 32]}",
     "a.toml:1: linear.fprop.input.scale: \"e8m0\" for ternary elements: \"fp32\" or \"pow2\""},
    {"linear.fprop.input = {format='int4', element='ternary', scale_of='rms'}",
     "a.toml:1: linear.fprop.input.scale_of: \"rms\" for \"fp32\" scales of ternary elements"},
    {"weights.storage = {format='int4', element='ternary', scale_of='mean_abs'}",
     "a.toml: weights.storage.scale_of: a stored tensor is scaled by its largest magnitude"},
    {"linear.wgrad.center = 'operand'",
     "a.toml:1: linear.wgrad.center: unknown \"operand\": none or wide"},
    {"linear.fprop.center = 'wide'\nlinear.wgrad.input = {format='nvfp4', from='fprop'}",
     "a.toml: linear.wgrad.input.from: \"fprop\" beside linear.fprop.center: \"original\", or "
     "linear.fprop.center = \"none\""},
    {"linear.fprop = {input={format='nvfp4', gradient='clip'}, center='wide'}",
     "a.toml: linear.fprop.input.gradient: \"clip\" beside linear.fprop.center: \"straight\", or "
     "linear.fprop.center = \"none\""},
};

TEST(MethodKeys, AreRefusedWhereTheyDoNotGo) {
  for (const BadMethod& each : kBadMethods) {
    const std::string said = ng::error_of([&] { (void)Recipe::parse(each.toml, "a.toml"); });
    EXPECT_EQ(said.substr(0, each.message.size()), each.message) << each.toml;
  }
}

constexpr BadMethod kBadMoments[] = {
    {"optimizer.moment1 = {format='fp8_e4m3', map='dynamic', block=[1, 128]}",
     "a.toml:1: optimizer.moment1.map: \"dynamic\" for e4m3 elements: element = \"int8\""},
    {"optimizer.moment1 = {format='int8', map='linear'}",
     "a.toml:1: optimizer.moment1.map: unknown \"linear\": none or dynamic"},
    {"optimizer.moment1 = {format='int8', map='dynamic'}",
     "a.toml:1: optimizer.moment1.block: \"row\" beside map = \"dynamic\": [1, c]"},
    {"optimizer.moment2 = {format='int8', map='dynamic', block=[2, 64]}",
     "a.toml:1: optimizer.moment2.block: [2, 64] beside map = \"dynamic\": [1, c]"},
    {"optimizer.moment2 = {format='int8', map='dynamic', block=[1, 512]}",
     "a.toml:1: optimizer.moment2.block: [1, 512]: \"tensor\", \"row\" or [r, c] with"},
    {"optimizer.moment2 = {format='int8', map='dynamic', block=[1, 64], scale='pow2'}",
     "a.toml:1: optimizer.moment2.scale: \"pow2\" beside map = \"dynamic\": \"fp32\""},
    {"optimizer.moment1 = {format='int8', map='dynamic', block=[1, 64], rounding='stochastic'}",
     "a.toml:1: optimizer.moment1.rounding: \"stochastic\" beside map = \"dynamic\": "
     "\"nearest\""},
    {"optimizer.moment1 = {format='fp8_e5m2', expand=true, block=[1, 128]}",
     "a.toml:1: optimizer.moment1.expand: true for e5m2 elements: element = \"e4m3\", or false"},
    {"optimizer.moment1 = {format='fp8_e4m3', expand=1, block=[1, 128]}",
     "a.toml:1: optimizer.moment1.expand: 1: true or false"},
    {"optimizer.moment1 = {format='fp8_e4m3', expand=true}",
     "a.toml:1: optimizer.moment1.block: \"tensor\" beside expand = true: [1, c]"},
    {"optimizer.moment1 = {format='mxfp8_e4m3', expand=true}",
     "a.toml:1: optimizer.moment1.scale: \"e8m0\" beside expand = true: \"fp32\""},
    {"optimizer.moment1 = {format='fp16', parts=2}",
     "a.toml:1: optimizer.moment1.parts: 2 of fp16 elements: format = \"bf16\", or 1"},
    {"optimizer.moment1 = {format='bf16', parts=3}",
     "a.toml:1: optimizer.moment1.parts: 3: a whole number from 1 to 2"},
    {"optimizer.moment1 = {format='bf16', parts=2, rounding='stochastic'}",
     "a.toml:1: optimizer.moment1.rounding: \"stochastic\" beside parts = 2: \"nearest\""},
    {"optimizer.moment1 = {format='bf16', min_size=-1}",
     "a.toml:1: optimizer.moment1.min_size: -1: a whole number from 0 to 2147483647"},
    {"optimizer.moment1 = {format='fp32', min_size=0}",
     "a.toml:1: optimizer.moment1.min_size: has no effect here: together with a format narrower"},
    {"linear.fprop.weight = {format='int8', map='dynamic'}",
     "a.toml:1: linear.fprop.weight.map: not a key of this operand: in optimizer.moment1 or "},
    {"weights.storage = {format='bf16', parts=2}",
     "a.toml:1: weights.storage.parts: not a key of this operand: in optimizer.moment1 or "},
    {"linear.fprop.weight = {format='fp8_e4m3', block=[1, 256]}",
     "a.toml:1: linear.fprop.weight.block: [1, 256] outside of moments: \"tensor\", \"row\" or "},
    {"weights.storage = {format='fp8_e4m3', block=[1, 256]}\nweights.update='stochastic'",
     "a.toml:1: weights.storage.block: [1, 256] outside of moments: \"tensor\", \"row\" or "},
};

TEST(MethodKeys, OfMomentsAreRefusedWhereTheyDoNotGo) {
  for (const BadMethod& each : kBadMoments) {
    const std::string said = ng::error_of([&] { (void)Recipe::parse(each.toml, "a.toml"); });
    EXPECT_EQ(said.substr(0, each.message.size()), each.message) << each.toml;
  }
}

TEST(MethodKeys, OfMomentsAreReadPrintedAndHashed) {
  const auto recipe = [](const std::string& moment) {
    return Recipe::parse("optimizer.moment1 = {" + moment + "}", "a.toml");
  };
  const std::pair<const char*, const char*> kSaid[] = {
      {"format = \"int8\", block = [1, 256]", "map = \"dynamic\""},
      {"format = \"fp8_e4m3\", block = [1, 128]", "expand = true"},
      {"format = \"bf16\"", "parts = 2"},
      {"format = \"bf16\"", "min_size = 0"}};
  for (const auto& [plain, key] : kSaid) {
    const std::string both = fmt::format("{}, {}", plain, key);
    const Recipe with = recipe(both), without = recipe(plain);
    EXPECT_NE(with.hash(), without.hash()) << key;
    EXPECT_EQ(print_operand(with.settings(0).optimizer.moment1), "{" + both + "}");
    EXPECT_EQ(Recipe::parse(with.resolved_toml(), "b.toml").hash(), with.hash()) << key;
  }
  const Recipe wide = recipe("format = 'fp8_e4m3', block = [1, 256]");  // of any kind
  EXPECT_EQ(wide.settings(0).optimizer.moment1.block.cols, 256);
}

TEST(MethodKeys, AreReadAndPrinted) {
  const Recipe recipe = Recipe::parse(
      "linear.dgrad = {grad = {format = 'nvfp4', rounding = 'eden'}, hadamard = 128, weight = "
      "{format = 'nvfp4', rounding = 'eden', from = 'fprop'}}\n"
      "linear.fprop.input = {format = 'mxfp4', scale_of = 'rms'}\n"
      "linear.fprop.weight = {format = 'mxfp4', gradient = 'dge', dge_k = 3}",
      "a.toml");
  const LinearRecipe& linear = recipe.settings(0).linear;
  EXPECT_EQ(linear.dgrad.right.from, From::fprop);
  EXPECT_EQ(linear.dgrad.left.scale_max, 255.99f) << "eden's default";
  EXPECT_EQ(print_operand(linear.fprop.left), "{format = \"mxfp4\", scale_of = \"rms\"}");
  EXPECT_EQ(print_operand(linear.fprop.right),
            "{format = \"mxfp4\", gradient = \"dge\", dge_k = 3}");
  EXPECT_EQ(Recipe::parse(recipe.resolved_toml(), "b.toml").resolved_toml(),
            recipe.resolved_toml());
}

TEST(MethodKeys, RegionsAreReadPrintedAndHashed) {
  const auto recipe = [](const std::string& key) {
    return Recipe::parse("linear.fprop.input = {format = 'nvfp4'" + key + "}", "a.toml");
  };
  const Recipe plain = recipe("");
  EXPECT_EQ(recipe(", tensor_block = 'tensor'").hash(), plain.hash()) << "the default";
  for (const char* block : {"\"row\"", "[1, 128]", "[3, 48]"}) {
    const Recipe other = recipe(std::string(", tensor_block = ") + block);
    EXPECT_NE(other.hash(), plain.hash()) << block;
    EXPECT_EQ(print_operand(other.settings(0).linear.fprop.left),
              std::string("{format = \"nvfp4\", tensor_block = ") + block + "}");
    EXPECT_EQ(Recipe::parse(other.resolved_toml(), "b.toml").hash(), other.hash());
  }
  Operand operand = plain.settings(0).linear.fprop.left;
  EXPECT_EQ(bits_per_value(operand), 4.5);
  operand.tensor_block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  EXPECT_EQ(bits_per_value(operand), 4.75);
  EXPECT_EQ(describe(operand), "nvfp4 tensor_block 1x128");
  EXPECT_FALSE(operand.factors_are_bf16());
}

TEST(MethodKeys, ListsOfElementsAreReadPrintedAndHashed) {
  const auto recipe = [](const std::string& keys) {
    return Recipe::parse("linear.dgrad.grad = {format = 'nvfp4'" + keys + "}", "a.toml");
  };
  const Recipe list = recipe(", element = ['e2m1', 'int4'], select = 'mae'");
  const Operand cast = list.settings(0).linear.dgrad.left;
  EXPECT_EQ(cast.element, &element_format("e2m1"));
  EXPECT_EQ(cast.other, &element_format("int4"));
  EXPECT_EQ(print_operand(cast),
            "{format = \"nvfp4\", element = [\"e2m1\", \"int4\"], select = \"mae\"}");
  EXPECT_EQ(describe(cast), "nvfp4 element e2m1,int4 select mae");
  EXPECT_EQ(bits_per_value(cast), 4.5);
  EXPECT_FALSE(cast.factors_are_bf16());
  EXPECT_NE(list.hash(), recipe("").hash());
  EXPECT_NE(list.hash(), recipe(", element = ['e2m1', 'int4']").hash());
  EXPECT_EQ(Recipe::parse(list.resolved_toml(), "b.toml").hash(), list.hash());
  EXPECT_EQ(recipe(", element = 'e2m1'").hash(), recipe("").hash());
  EXPECT_TRUE(list.warnings().empty());
  const Recipe drawn = recipe(", element = ['e2m1', 'int4'], rounding = 'stochastic'");
  ASSERT_EQ(drawn.warnings().size(), 1u);
  EXPECT_NE(drawn.warnings()[0].find("linear.dgrad.grad.element: of a list a block takes the "
                                     "element that stochastic rounding"),
            std::string::npos);
}

TEST(MethodKeys, AFormatForAllOperandsTakesNoMeanOff) {
  const Recipe recipe = Recipe::parse(
      "inherit = 'averis'\n[[override]]\nlayers = '*.down'\nlinear = 'bf16'", "a.toml");
  const auto of = [&](const char* name) {
    return recipe.linear({.name = name, .block = 0, .depth = 4}, 0);
  };
  EXPECT_EQ(of("blocks.0.mlp.up").fprop.center, Center::operand);
  EXPECT_EQ(of("blocks.0.mlp.up").wgrad.center, Center::wide);
  EXPECT_EQ(of("blocks.0.mlp.down").fprop.center, Center::none);
}

TEST(MethodKeys, EdenWarnsOfSignsThatStay) {
  const Recipe recipe = Recipe::parse(
      "linear.wgrad = {grad = {format = 'nvfp4', rounding = 'eden'}, input = 'nvfp4', "
      "hadamard = 16, hadamard_signs = 'layer'}",
      "a.toml");
  ASSERT_EQ(recipe.warnings().size(), 1u);
  EXPECT_NE(recipe.warnings()[0].find("linear.wgrad.hadamard_signs: eden"), std::string::npos);
}

TEST(MethodKeys, EdenIsNoCast) {
  CastWords words{.format = "nvfp4", .words = {{"rounding", "eden"}}};
  EXPECT_THROW((void)words.operand(), Error);
}

}  // namespace
}  // namespace ng
