// What makes two recipes the same one: hashes that checkpoints carry.
#include <gtest/gtest.h>

#include <map>

#include "recipe/recipe.h"

namespace ng {
namespace {

Recipe recipe_of(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

TEST(Identity, IsWhatDiffersFromTheDefaults) {
  const std::string of_nothing = "cbf29ce484222325";  // FNV-1a of no text
  EXPECT_EQ(Recipe::load("fp32").hash(), of_nothing);
  EXPECT_EQ(recipe_of("weights.rtol=0.01\noptimizer.kind='adamw'\n"
                      "communication.weights='bf16'\n"
                      "linear.fprop={input='fp32', output='compute'}")
                .hash(),
            of_nothing);
  EXPECT_NE(recipe_of("communication.weights='fp32'").hash(), of_nothing);
  EXPECT_NE(recipe_of("weights.rtol=0.02").hash(), of_nothing);
}

// A version in which one of these differs refuses to go on from the checkpoints of those before.
TEST(Identity, StaysFromVersionToVersion) {
  const std::map<std::string, std::string> known = {{"bf16", "3d94cb7e412bdf92"},
                                                    {"fp8-delayed", "f3ccfe44ef2e90e6"},
                                                    {"mxfp4-sr-rht", "4cb400b294887d55"},
                                                    {"mxfp4-all-mxint8-head", "cdc0eb2bbe699c15"},
                                                    {"nvfp4-late-bf16", "84fb9b37401942a4"}};
  for (const auto& [name, hash] : known) EXPECT_EQ(Recipe::load(name).hash(), hash) << name;
}

// As checkpoints name recipes that hold every key that there was.
TEST(Identity, OfOlderCheckpointsIsKnownToo) {
  const std::map<std::string, std::string> known = {{"fp32", "f2c562685c9f48ec"},
                                                    {"bf16", "42a67c792afb1fe4"},
                                                    {"fp8-delayed", "f05ec336482cd3d8"},
                                                    {"mxfp4-sr-rht", "341df7a11327f826"},
                                                    {"mxfp4-all-mxint8-head", "57269802b1574e48"},
                                                    {"nvfp4-late-bf16", "4f02f2d832274ef1"}};
  for (const auto& [name, hash] : known)
    EXPECT_EQ(Recipe::load(name).hash_of_all_keys(), hash) << name;
  for (const char* newer : {"bf16-attention", "bf16-tile", "averis"})
    EXPECT_EQ(Recipe::load(newer).hash_of_all_keys(), "") << newer << " says a newer key";
}

TEST(Identity, IgnoresNameAndSpelling) {
  const Recipe a = recipe_of("name='a'\nlinear.fprop.input = {format='bf16', prescale=1}");
  const Recipe b = recipe_of("name='b'\n[linear.fprop]\ninput = 'bf16'");
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_EQ(a.hash().size(), 16u);
  const Recipe c = recipe_of("[[override]]\nblocks=':2'\nlinear.fprop.input.prescale=1.0");
  const Recipe d = recipe_of("override=[{blocks=':2', linear={fprop={input={prescale=1}}}}]");
  EXPECT_EQ(c.hash(), d.hash());
}

// A format may get a name of its own later.
TEST(Identity, IgnoresTheNamesOfFormats) {
  EXPECT_EQ(recipe_of("linear.fprop.input='mxfp4'").hash(),
            recipe_of("linear.fprop.input={element='e2m1', scale='e8m0', block=[1,32]}").hash());
  const std::string phase = "compute='bf16'\n[[phase]]\nstart=0.5\n";
  EXPECT_EQ(recipe_of(phase + "linear.fprop.input='mxfp4'").hash(),
            recipe_of(phase + "linear.fprop.input={format='mxfp4', prescale=1}").hash());
  EXPECT_NE(recipe_of(phase + "linear.fprop.input='mxfp4'").hash(),
            recipe_of(phase + "linear.fprop.input='nvfp4'").hash());
}

TEST(Identity, OfNamedRecipesDiffers) {
  std::map<std::string, std::string> by_hash;
  for (const std::string& name : recipe_names()) {
    const auto [at, is_new] = by_hash.emplace(Recipe::load(name).hash(), name);
    EXPECT_TRUE(is_new) << name << " and " << at->second;
  }
}

}  // namespace
}  // namespace ng
