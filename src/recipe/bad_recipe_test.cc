// Every way to get a recipe wrong that has a message of its own, with the message.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

std::string recipe_error(std::string_view toml) {
  try {
    (void)Recipe::parse(toml, "a.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Bad {
  std::string_view toml;
  std::string_view message;  ///< its beginning
};

constexpr Bad kSyntax[] = {
    {"linear = ", "a.toml:1: Error while parsing"},
    {"a = 1\na = 2", "a.toml:2: Error while parsing"},
    {"\n\nx = [", "a.toml:3: Error while parsing"},
    {"\xff\xfe", "a.toml:1: "},
};

constexpr Bad kKeys[] = {
    {"nmae = 'x'", "a.toml:1: nmae: unknown key: the nearest known key is name"},
    {"\nlinear.wgard.grad = 'mxfp4'",
     "a.toml:2: linear.wgard: unknown key: the nearest known key is linear.wgrad"},
    {"linear.wgrad.weight = 'bf16'",
     "a.toml:1: linear.wgrad.weight: unknown key: the nearest known "
     "key is linear.dgrad.weight"},
    {"linear.wgrad.output = 'bf16'",
     "a.toml:1: linear.wgrad.output: unknown key: the nearest known "
     "key is linear.dgrad.output"},
    {"hadamard = 64", "a.toml:1: hadamard: unknown key: the nearest known key is "},
    {"linear.fprop.input = {fromat='mxfp4'}",
     "a.toml:1: linear.fprop.input.fromat: unknown key: the nearest known key is "
     "linear.fprop.input.format"},
    {"'linear.fprop' = 1", "a.toml:1: \"linear.fprop\": unknown key"},
    {"lr = 1", "a.toml:1: lr: unknown key: the nearest known key is "},
    {"[[override]]\nblocks=':1'\ncompute='bf16'",
     "a.toml:3: override.compute: unknown key: the nearest known key is override."},
    {"[[phase]]\nstart=0.5\ninherit='x'", "a.toml:3: phase.inherit: unknown key"},
};

constexpr Bad kValues[] = {
    {"name = 1", "a.toml:1: name: 1: a string"},
    {"name = ''", "a.toml:1: name: \"\": a name of at least one character"},
    {"compute = 'fp16'", "a.toml:1: compute: unknown \"fp16\": fp32 or bf16"},
    {"compute = true", "a.toml:1: compute: true: fp32 or bf16"},
    {"linear.wgrad.grad.format = 'mxfp5'",
     "a.toml:1: linear.wgrad.grad.format: unknown \"mxfp5\": did you mean \"mxfp4\"? known: "
     "fp32, bf16, fp16, fp8_e4m3,"},
    {"linear.wgrad.grad = 4", "a.toml:1: linear.wgrad.grad: 4: fp32, bf16, fp16,"},
    {"linear.fprop = 'bf16'", "a.toml:1: linear.fprop: \"bf16\": a table of keys"},
    {"linear = 3", "a.toml:1: linear: 3: fp32, bf16,"},
    {"linear.fprop.hadamard = 24", "a.toml:1: linear.fprop.hadamard: 24: 0, 16, 32, 64 or 128"},
    {"linear.fprop.hadamard = '64'",
     "a.toml:1: linear.fprop.hadamard: \"64\": 0, 16, 32, 64 or 128"},
    {"linear.fprop.hadamard_signs = 'fix'",
     "a.toml:1: linear.fprop.hadamard_signs: unknown \"fix\": random, fixed, none or layer"},
    {"linear.fprop.input = {format='mxfp4', block=[1,24]}",
     "a.toml:1: linear.fprop.input.block: [1, 24]: \"tensor\", \"row\" or [r, c] with"},
    {"linear.fprop.input = {format='mxfp4', block=[0,32]}",
     "a.toml:1: linear.fprop.input.block: [0, 32]: "},
    {"linear.fprop.input = {format='mxfp4', block=[1,32,1]}",
     "a.toml:1: linear.fprop.input.block: [1, 32, 1]: "},
    {"linear.fprop.input = {format='mxfp4', rounding='stochastic', sr_bits=12}",
     "a.toml:1: linear.fprop.input.sr_bits: 12: 16, 8 or 32"},
    {"linear.fprop.input = {format='mxfp4', prescale=0}",
     "a.toml:1: linear.fprop.input.prescale: 0: a number from "},
    {"linear.fprop.input = {element='e8m0'}",
     "a.toml:1: linear.fprop.input.element: unknown \"e8m0\": known: "},
    {"linear.fprop.input = {element='e9m3'}",
     "a.toml:1: linear.fprop.input.element: element format \"e9m3\" has 9 exponent bits: 1 to 8"},
    {"weight_noise.block = [16,32]",
     "a.toml:1: weight_noise.block: [16, 32]: [32, 32] or \"tensor\""},
    {"weight_noise.b_init = 'six'",
     "a.toml:1: weight_noise.b_init: \"six\": a number from 0 to 24"},
    {"weights.update = ['stochastic', 'kahan']", "a.toml:1: weights.update: [\"stochastic\", "},
    {"weights.update = ['kahan', 'momentum_feedback']",
     "a.toml:1: weights.update: [\"kahan\", \"momentum_feedback\"]: one of them: kahan keeps "},
    {"weights.residual_bits = 6", "a.toml:1: weights.residual_bits: 6: 8 or 4"},
    {"weights.rtol = 0", "a.toml:1: weights.rtol: 0: a number above 0 and below 1"},
    {"optimizer.kind = 'adam'", "a.toml:1: optimizer.kind: unknown \"adam\": adamw, adam_mini,"},
    {"gradient = {communicate='mxfp4', reduce='wire'}", "a.toml: gradient.reduce: \"wire\" adds"},
    {"gradient.auto_scale = 1", "a.toml:1: gradient.auto_scale: 1: true or false"},
    {"gradient.growth_interval = 0",
     "a.toml:1: gradient.growth_interval: 0: a whole number from 1"},
    {"inherit = 5", "a.toml:1: inherit: 5: a string"},
    {"inherit = 'mxfp4-sr-rth'",
     "a.toml:1: inherit: unknown \"mxfp4-sr-rth\": did you mean \"mxfp4-sr-rht\"?"},
};

// Operands whose keys contradict each other.
constexpr Bad kOperands[] = {
    {"linear.fprop.input = {element='e2m3'}",
     "a.toml:1: linear.fprop.input.scale: e2m3 elements without scale: a scale; only floating "
     "elements of 8 and more bits go without"},
    {"linear.fprop.input = {scale='fp32'}",
     "a.toml:1: linear.fprop.input.scale: a scale for fp32 elements: \"none\": fp32 is never "
     "rounded"},
    {"linear.fprop.input = {format='mxint8', scale='fp32'}",
     "a.toml:1: linear.fprop.input.scale: \"fp32\" for mxint8 elements: \"e8m0\""},
    {"linear.fprop.input = {format='int8', scale='e8m0', block=[1,32]}",
     "a.toml:1: linear.fprop.input.scale: \"e8m0\" for int8 elements: \"fp32\" or \"pow2\""},
    {"linear.fprop.input = {format='mxfp4', element='e8m3'}",
     "a.toml:1: linear.fprop.input.scale: \"e8m0\" for e8m3 elements: \"fp32\" or \"pow2\""},
    {"linear.fprop.input = {format='mxfp8_e4m3', scale='e4m3'}",
     "a.toml:1: linear.fprop.input.scale: \"e4m3\" for e4m3 elements: element = \"e2m1\" or "
     "\"int4\", or another scale"},
    {"linear.fprop.input = {format='bf16', block='row'}",
     "a.toml:1: linear.fprop.input.block: \"row\" without scale: \"tensor\", or a scale"},
    {"linear.fprop.input = {format='mxfp4', block='row'}",
     "a.toml:1: linear.fprop.input.block: \"row\" with \"e8m0\" scales: [r, c]"},
    {"linear.fprop.input = {format='mxfp4', tensor_scale='fp32'}",
     "a.toml:1: linear.fprop.input.tensor_scale: a tensor scale above \"e8m0\" scales: \"none\", "
     "or scale = \"e4m3\""},
    {"linear.fprop.input = {format='mxfp4', scaling='delayed'}",
     "a.toml:1: linear.fprop.input.scaling: \"delayed\" for e2m1 with \"e8m0\" scales of [1, 32]: "
     "floating elements, scale \"fp32\" or \"pow2\", block \"tensor\""},
    {"linear.fprop.input = {format='int8', block='tensor', scaling='delayed'}",
     "a.toml:1: linear.fprop.input.scaling: \"delayed\" for int8 with"},
    {"linear.fprop.input = {format='mxfp4', scale_rule='up'}",
     "a.toml:1: linear.fprop.input.scale_rule: \"up\" for \"e8m0\" scales: \"floor\", \"rceil\", "
     "\"ceil\", \"even\" or \"mse\""},
    {"linear.fprop.input = {format='nvfp4', scale_rule='floor'}",
     "a.toml:1: linear.fprop.input.scale_rule: \"floor\" for \"e4m3\" scales: \"nearest\" or "
     "\"up\""},
    {"linear.fprop.input = {format='fp8_e4m3', scale_rule='ceil'}",
     "a.toml:1: linear.fprop.input.scale_rule: \"ceil\" for \"fp32\" scales: no scale_rule"},
    {"linear.fprop.input = {rounding='stochastic'}",
     "a.toml:1: linear.fprop.input.rounding: \"stochastic\" for fp32 elements: \"nearest\""},
    {"linear.fprop.input = {format='mxfp4', overflow='special'}",
     "a.toml:1: linear.fprop.input.overflow: \"special\" for e2m1 elements, which have neither "
     "infinity nor NaN: \"saturate\""},
    {"linear.fprop.input = {format='fp8_e4m3', margin=1}",
     "a.toml:1: linear.fprop.input.margin: has no effect here: together with scaling = "
     "\"delayed\""},
    {"linear.fprop.input = {format='mxfp4', sr_bits=8}",
     "a.toml:1: linear.fprop.input.sr_bits: has no effect here: together with rounding = "
     "\"stochastic\""},
};

constexpr Bad kRules[] = {
    {"weights.update = 'kahan'",
     "a.toml: weights.update: \"kahan\" for weights stored in "
     "fp32 without master: \"nearest\", or weights.storage narrower "
     "than fp32"},
    {"weights.update = 'momentum_feedback'",
     "a.toml: weights.update: [\"nearest\", \"momentum_feedback\"] for weights stored in fp32"},
    {"weights.master = 'fp16'",
     "a.toml: weights.master: \"fp16\", a wider copy of weights that are fp32: \"none\", or "
     "weights.storage "
     "narrower than fp32"},
    {"weights = {storage='bf16', master='fp32', update='kahan'}",
     "a.toml: weights.update: \"kahan\" beside a master, which updates go into: "},
    {"weights = {storage='bf16', update='momentum_feedback'}\noptimizer.kind='sgd'",
     "a.toml: weights.update: [\"nearest\", \"momentum_feedback\"] without a second moment, by "
     "which the feedback is measured: "},
    {"weights = {storage='mxfp4', update='precision_aware'}",
     "a.toml: weights.update: precision_aware for mxfp4, whose grid follows the values: "},
    {"weights.storage = {format='bf16', rounding='stochastic'}",
     "a.toml: weights.storage.rounding: weights.update says how weights are rounded: "},
    {"weights.storage = {format='fp8_e4m3', scaling='delayed'}",
     "a.toml: weights.storage.scaling: a stored tensor is scaled when it is stored: \"current\""},
    {"optimizer.moment1 = {format='mxfp4', prescale=0.75}",
     "a.toml: optimizer.moment1.prescale: no GEMM undoes it for a stored tensor: 1.0"},
    {"optimizer.moment1 = {format='fp8_e4m3', overflow='special'}",
     "a.toml: optimizer.moment1.overflow: a stored tensor saturates: \"saturate\""},
    {"optimizer.moment2 = {format='bf16', rounding='stochastic', sr_bits=32}",
     "a.toml: optimizer.moment2.sr_bits: a stored tensor draws 8 or 16 bits: 16"},
    {"optimizer.moment1 = {format='mxfp8_e4m3', scale_rule='mse'}",
     "a.toml: optimizer.moment1.scale_rule: mse is for operands of GEMMs: "},
    {"inherit='feedback-bf16'\noptimizer.moment1='fp16'",
     "a.toml: optimizer.moment1: momentum_feedback into fp16, which rounds away what is fed "
     "back: \"fp32\", or rounding = \"stochastic\""},
    {"optimizer = {kind='sgd', moment2='bf16'}",
     "a.toml: optimizer.moment2: sgd has no second moment: "},
    {"linear.fprop.weight='mxfp4'\nweight_noise.kind='gaussws'",
     "a.toml: weight_noise.kind: noise on blocks.0.attn.qkv, whose linear.fprop.weight is mxfp4: "
     "linear.fprop.weight = \"bf16\" or \"fp32\" for these layers"},
    {"weight_noise.kind='gaussws'\n[[override]]\nblocks='-1:'\nlinear='int8'",
     "a.toml: weight_noise.kind: noise on blocks.0.attn.qkv, whose"},
    {"override = 5", "a.toml:1: override: 5: a list of at most 64 tables"},
    {"override = [1]", "a.toml:1: override: [1]: a list of at most 64 tables"},
    {"[[override]]\nblocks = 3", "a.toml:2: override.blocks: 3: a slice of blocks such as"},
    {"[[override]]\nblocks = '3'", "a.toml:2: override.blocks: \"3\": a slice of blocks such as"},
    {"[[override]]\nlayers = []", "a.toml:2: override.layers: []: a string or a list of strings"},
    {"[[override]]\nlayers = [1]", "a.toml:2: override.layers: [1]: a string or a list of strings"},
    {"[[override]]\nblocks=':1'\nlinear.fprop.input.scale='e8m0'",
     "a.toml:3: override.linear.fprop.input.scale: a scale for fp32 elements"},
    {"[[phase]]\ncompute='bf16'", "a.toml:1: phase.start: missing: the share of training"},
    {"[[phase]]\nstart=1", "a.toml:2: phase.start: 1: a number above 0 and below 1"},
    {"[[phase]]\nstart=0", "a.toml:2: phase.start: 0: a number above 0 and below 1"},
    {"[[phase]]\nstart=0.5\n[[phase]]\nstart=0.5",
     "a.toml:4: phase.start: 0.5: phases in ascending order of start"},
    {"phase = 'late'", "a.toml:1: phase: \"late\": a list of at most 32 tables"},
};

// What is laid out before the first step stays as it is; each key says where it belongs.
constexpr Bad kPhases[] = {
    {"[[phase]]\nstart=0.5\nweights.storage='bf16'",
     "a.toml:3: phase.weights.storage: cannot change in the middle of a run: weights.storage "
     "outside of [[phase]], which takes compute and linear keys only"},
    {"[[phase]]\nstart=0.5\ncompute='bf16'\noptimizer={kind='sgd'}",
     "a.toml:4: phase.optimizer.kind: cannot change in the middle of a run: optimizer.kind "
     "outside"},
    {"[[phase]]\nstart=0.5\nweight_noise.layers=['*.mlp.up']",
     "a.toml:3: phase.weight_noise.layers: cannot change in the middle of a run: "},
    {"[[phase]]\nstart=0.5\ngradient.accumulate='fp32'",
     "a.toml:3: phase.gradient.accumulate: cannot change in the middle of a run: "},
    {"[[phase]]\nstart=0.5\ncommunication.weights={format='fp8_e4m3'}",
     "a.toml:3: phase.communication.weights: cannot change in the middle of a run: "},
    {"[[phase]]\nstart=0.5\nweights.storag='bf16'",
     "a.toml:3: phase.weights.storag: unknown key: the nearest known key is phase.weights.storage"},
};

// Each override is judged by what it changes, and a key by all that it may change.
constexpr Bad kOverrides[] = {
    {"linear.fprop.input.sr_bits = 8",
     "a.toml:1: linear.fprop.input.sr_bits: has no effect here: together with rounding = "},
    {"[[phase]]\nstart=0.5\nlinear.fprop.input.margin = 1",
     "a.toml:3: phase.linear.fprop.input.margin: has no effect here: together with scaling = "},
    {"[[override]]\nlinear.dgrad.grad.sr_bits=8",
     "a.toml:2: override.linear.dgrad.grad.sr_bits: has no effect here: together with rounding = "
     "\"stochastic\""},
    {"inherit='bf16'\n"
     "[[override]]\nlayers='*.mlp.*'\nlinear.dgrad.grad={format='mxfp4',rounding='stochastic'}\n"
     "[[override]]\nlayers='*.attn.*'\nlinear.dgrad.grad.sr_bits=8",
     "a.toml:7: override.linear.dgrad.grad.sr_bits: has no effect here: together with rounding"},
    {"inherit='bf16'\n[[override]]\nlinear.dgrad.grad.sr_bits=8\n"
     "[[override]]\nlinear.dgrad.grad={format='mxfp4',rounding='stochastic'}",
     "a.toml:3: override.linear.dgrad.grad.sr_bits: has no effect here: together with rounding"},
    {"inherit='bf16'\n[[override]]\nlayers='*.mlp.*'\nlinear='mxfp4'\n"
     "[[override]]\nlinear.dgrad.grad.scale_rule='rceil'",
     "a.toml:6: override.linear.dgrad.grad.scale_rule: \"rceil\" for \"none\" scales, in "
     "blocks.0.attn.qkv (depth 1): no scale_rule: "},
    {"inherit='mxfp4-sr'\n[[override]]\nlayers='*'\nlinear.dgrad.grad.scale_rule='rceil'",
     "a.toml:4: override.linear.dgrad.grad.scale_rule: \"rceil\" for \"none\" scales, in head: no "
     "scale_rule: only e8m0 and e4m3 scales are rounded by one"},
    {"linear='mxfp4'\n[[override]]\nlinear.dgrad.grad.scale_rule='even'\n"
     "[[phase]]\nstart=0.5\nlinear='int8'",
     "a.toml:3: override.linear.dgrad.grad.scale_rule: \"even\" for \"fp32\" scales, in "
     "blocks.0.attn.qkv (depth 1) from 0.5 of training on: no scale_rule: "},
    {"[[override]]\nblocks='100:'\nlinear.dgrad.grad.scale_rule='up'",
     "a.toml:3: override.linear.dgrad.grad.scale_rule: \"up\" for \"none\" scales, in "
     "blocks.100.attn.qkv (depth 128): "},
    {"[[override]]\nweights.update='kahan'",
     "a.toml:1: weights.update: \"kahan\" for weights stored in fp32 without master, in "
     "blocks.0.attn.qkv (depth 1): "},
    {"[[override]]\nweight_noise={kind='gaussws',layers='*.mlp.up'}\nlinear.fprop.weight='mxfp4'",
     "a.toml: weight_noise.kind: noise on blocks.0.mlp.up, whose"},
};

// Values that none could be, whatever they change, are refused even where no model tried has the
// layer, and no layer is blamed.
constexpr Bad kOverrideValues[] = {
    {"[[override]]\nlinear.dgrad.grad='mxfp5'",
     "a.toml:2: override.linear.dgrad.grad: unknown \"mxfp5\": did you mean \"mxfp4\"?"},
    {"[[override]]\nblocks='200:'\nlinear.dgrad.grad.sr_bits=12",
     "a.toml:3: override.linear.dgrad.grad.sr_bits: 12: 16, 8 or 32"},
    {"[[override]]\nlayers='none'\nlinear.dgrad.grad={format='mxfp4',scale_rule='up'}",
     "a.toml:3: override.linear.dgrad.grad.scale_rule: \"up\" for \"e8m0\" scales: \"floor\""},
    {"[[override]]\nlayers='none'\nlinear.dgrad.grad={format='mxfp4',sr_bits=8}",
     "a.toml:3: override.linear.dgrad.grad.sr_bits: has no effect here: together with rounding"},
    {"[[override]]\nlayers='none'\nlinear.fprop.hadamard=24",
     "a.toml:3: override.linear.fprop.hadamard: 24: 0, 16, 32, 64 or 128"},
};

template <size_t n>
void expect_messages(const Bad (&bad)[n]) {
  for (const Bad& each : bad)
    EXPECT_EQ(recipe_error(each.toml).substr(0, each.message.size()), each.message) << each.toml;
}

TEST(BadRecipe, SyntaxIsNamedWithItsLine) { expect_messages(kSyntax); }
TEST(BadRecipe, UnknownKeysNameTheNearest) { expect_messages(kKeys); }
TEST(BadRecipe, ValuesSayWhatWouldBeRight) { expect_messages(kValues); }
TEST(BadRecipe, ContradictingOperandKeys) { expect_messages(kOperands); }
TEST(BadRecipe, RulesOfTheWhole) { expect_messages(kRules); }

TEST(BadRecipe, PhasesThatChangeWhatStays) { expect_messages(kPhases); }
TEST(BadRecipe, OverridesThatFitNothing) { expect_messages(kOverrides); }
TEST(BadRecipe, OverridesWithValuesThatAreNone) { expect_messages(kOverrideValues); }

TEST(BadRecipe, DepthAndLengthAreBounded) {
  std::string dots = "a";
  for (int i = 0; i < 300'000; ++i) dots += ".a";
  EXPECT_EQ(recipe_error(dots + "=1").substr(0, 17), "a.toml: too deep ");
  EXPECT_EQ(recipe_error("x=" + std::string(200'000, '[')).substr(0, 17), "a.toml: too deep ");
  EXPECT_EQ(recipe_error("x=" + std::string(5'000, '[')).substr(0, 9), "a.toml:1:");
  dots.resize(2 * 9'000 + 1);
  EXPECT_EQ(recipe_error(dots + "=1").substr(0, 26), "a.toml:1: a: unknown key: ");
  EXPECT_EQ(recipe_error("phase." + dots + "=1").substr(0, 25), "a.toml:1: phase: {a = {a ");
  EXPECT_EQ(recipe_error(std::string(2'000'000, '#')),
            "a.toml: 2000000 bytes: at most 1048576 bytes of TOML");
  const std::string long_key(100'000, 'k');
  EXPECT_LT(recipe_error(long_key + "=1").size(), 300u);
  EXPECT_LT(recipe_error("compute='" + long_key + "'").size(), 300u);
}

class RecipeFiles : public testing::Test {
 protected:
  RecipeFiles() { std::filesystem::create_directories(folder_); }
  ~RecipeFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string load_error(const std::string& path) {
    try {
      (void)Recipe::load(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("ng-recipes-{}", getpid());
};

TEST_F(RecipeFiles, CyclesAreRefused) {
  const std::string a = write("a.toml", "inherit='b'");
  const std::string b = write("b.toml", "\ninherit='./a.toml'");
  EXPECT_EQ(load_error(a),
            b + ":2: inherit: \"./a.toml\": a recipe that does not inherit from this one in turn");
  const std::string self = write("self.toml", "inherit='self'");
  EXPECT_EQ(load_error(self), self +
                                  ":1: inherit: \"self\": a recipe that does not inherit from "
                                  "this one in turn");
}

TEST_F(RecipeFiles, LongChainsAreRefused) {
  for (int i = 0; i < 40; ++i)
    write(fmt::format("r{}.toml", i), fmt::format("inherit='r{}'", i + 1));
  EXPECT_NE(load_error((folder_ / "r0.toml").string()).find("at most 32 recipes in a row"),
            std::string::npos);
}

TEST_F(RecipeFiles, ErrorsOfAParentNameTheParent) {
  const std::string parent = write("parent.toml", "\n\nlinear = 'fp33'");
  const std::string child = write("child.toml", "inherit='parent'");
  EXPECT_EQ(load_error(child).substr(0, parent.size() + 26),
            parent + ":3: linear: unknown \"fp33\"");
}

TEST_F(RecipeFiles, SiblingsComeBeforeTheNamedRecipes) {
  write("bf16.toml", "linear='fp16'");
  const Recipe child = Recipe::load(write("child.toml", "inherit='bf16'"));
  EXPECT_EQ(child.name(), "child");
  EXPECT_EQ(child.linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 1}, 0).fprop.left,
            operand_of("fp16"));
}

TEST_F(RecipeFiles, OfTheCurrentFolderHaveSiblingsToo) {
  write("child.toml", "inherit='sibling'");
  write("sibling.toml", "linear='mxfp4'");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const std::string error = load_error("child.toml");
  std::filesystem::current_path(before);
  EXPECT_EQ(error, "no error");
}

TEST_F(RecipeFiles, MissingFilesAndUnknownNames) {
  EXPECT_EQ(load_error("bf61"),
            "recipe: unknown \"bf61\": did you mean \"bf16\"? narrowgauge recipes lists all");
  EXPECT_EQ(load_error("wholly-other"),
            "recipe: unknown \"wholly-other\": narrowgauge recipes lists all");
  EXPECT_NE(load_error("/nowhere/x.toml").find("/nowhere/x.toml"), std::string::npos);
  EXPECT_NE(load_error(folder_.string() + "/").find(folder_.string()), std::string::npos);
}

TEST_F(RecipeFiles, TheEnvironmentNamesFolders) {
  write("mine.toml", "linear='fp16'");
  const size_t named = recipe_names().size();
  setenv("NARROWGAUGE_RECIPES", (":/nowhere:" + folder_.string()).c_str(), 1);
  EXPECT_EQ(Recipe::load("mine").name(), "mine");
  EXPECT_EQ(recipe_names().size(), named + 1);
  unsetenv("NARROWGAUGE_RECIPES");
  EXPECT_NE(load_error("mine"), "no error");
}

}  // namespace
}  // namespace ng
