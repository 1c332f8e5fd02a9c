#include "recipe/key_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "recipe/explained.h"
#include "recipe/operand_keys.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

TEST(KeyFacts, HaveExamplesThatLoad) {
  for (const KeyFacts& facts : recipe_key_facts()) {
    EXPECT_FALSE(facts.values.empty()) << facts.key;
    EXPECT_FALSE(facts.meaning.empty()) << facts.key;
    ASSERT_FALSE(facts.example.empty()) << facts.key;
    EXPECT_NO_THROW((void)Recipe::parse(facts.line, "example.toml")) << facts.line;
    EXPECT_NE(facts.line.find(facts.example), std::string::npos) << facts.line;
  }
}

TEST(KeyFacts, AreOfEveryKeyThatAnOperandCanSay) {
  std::set<std::string> known;
  for (const KeyFacts& facts : recipe_key_facts()) known.insert(facts.key);
  size_t left_out = 0;
  for (const auto& row : settings_keys())
    for (const OperandKey& key : operand_keys()) {
      if (row.type != kOperandType || known.contains(row.path + "." + key.path)) continue;
      const KeyFacts facts =
          facts_of(key, "recipe", key.print(operand_of("fp8_e4m3")), row.path + ".");
      EXPECT_THROW((void)Recipe::parse(facts.line, "example.toml"), Error) << facts.line;
      ++left_out;
    }
  // Stored tensors have no choice of ten, and four of two more; seventeen are made of one thing
  // alone, and pass no gradient in part; of thirteen that no GEMM reads a second scale is of the
  // whole; seventeen are no moments, which have four keys of their own.
  EXPECT_EQ(left_out, 10u * 10 + 4 * 2 + 17 * 4 + 13 + 17 * 4);
}

TEST(KeyFacts, OfferListsOfElementsWhereTheyAreTaken) {
  size_t offered = 0;
  for (const KeyFacts& facts : recipe_key_facts()) {
    if (!facts.key.ends_with(".element")) continue;
    const std::string operand = facts.key.substr(0, facts.key.rfind('.'));
    const bool is_offered = facts.type == "string or list";
    for (const std::string* text : {&facts.values, &facts.meaning, &facts.equation})
      EXPECT_EQ(text->find("e4m3 scales") != text->npos || text->find(" list") != text->npos,
                is_offered)
          << facts.key << ": " << *text;
    std::string line = facts.line;  // what the operand needs, then its table
    line.replace(line.rfind('{'), line.npos, "{format = 'nvfp4', element = ['e2m1', 'int4']}");
    if (is_offered)
      EXPECT_NO_THROW((void)Recipe::parse(line, "example.toml")) << line;
    else
      EXPECT_THROW((void)Recipe::parse(line, "example.toml"), Error) << line;
    offered += is_offered ? 1 : 0;
  }
  EXPECT_EQ(offered, 6u);
}

TEST(KeyFacts, SayWhatAnOperandsKeyNeedsAndStartsWith) {
  const std::vector<KeyFacts> all = recipe_key_facts();
  const auto of = [&](const std::string& key) {
    return *std::find_if(all.begin(), all.end(), [&](const auto& f) { return f.key == key; });
  };
  EXPECT_EQ(of("linear.dgrad.grad.block").standard, "\"tensor\"");
  EXPECT_EQ(of("communication.weights.element").standard, "\"bf16\"");
  EXPECT_NE(of("optimizer.moment1.sr_bits").meaning.find("only with rounding = \"stochastic\""),
            std::string::npos);
  EXPECT_EQ(of("linear.wgrad.hadamard").type, "integer");
}

TEST(ExplainedToml, IsTheSameRecipeWithAMeaningBehindEachLine) {
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = Recipe::load(name);
    const std::string text = explained_toml(recipe);
    EXPECT_EQ(Recipe::parse(text, name).resolved_toml(), recipe.resolved_toml()) << name;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      EXPECT_TRUE(line.empty() || line.starts_with("[[") || line.find("  # ") + 4 < line.size())
          << name << ": " << line;
      EXPECT_FALSE(line.ends_with("# ")) << name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace ng
