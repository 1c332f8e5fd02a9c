#include "recipe/key_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include "recipe/explained.h"

#include "base/error.h"

namespace ng {
namespace {

std::string toml_of(const KeyFacts& facts) { return facts.key + " = " + facts.example; }

/// A recipe that says this key as its example does; what it needs beside it is not there.
std::string recipe_of(const KeyFacts& facts) {
  for (const std::string list : {"override", "phase"})
    if (facts.key.starts_with(list + "."))
      return "[[" + list + "]]\n" + toml_of(facts).substr(list.size() + 1) +
             (list == "phase" ? "" : "\nlinear = \"bf16\"");
  return toml_of(facts);
}

TEST(KeyFacts, AreOfKeysThatTheLoaderTakes) {
  for (const KeyFacts& facts : recipe_key_facts()) {
    EXPECT_FALSE(facts.values.empty()) << facts.key;
    EXPECT_FALSE(facts.meaning.empty()) << facts.key;
    ASSERT_FALSE(facts.example.empty()) << facts.key;
    try {
      (void)Recipe::parse(recipe_of(facts), "example.toml");
    } catch (const Error& error) {  // of the example alone: what stands beside it contradicts it
      EXPECT_EQ(error.parts().problem.find("unknown"), std::string::npos) << error.what();
      EXPECT_NE(error.parts().remedy, facts.values) << error.what();
    }
  }
}

TEST(KeyFacts, SayWhatAnOperandsKeyNeedsAndStartsWith) {
  const std::vector<KeyFacts> all = recipe_key_facts();
  const auto of = [&](const std::string& key) {
    return *std::find_if(all.begin(), all.end(), [&](const auto& f) { return f.key == key; });
  };
  EXPECT_EQ(of("linear.dgrad.grad.block").standard, "\"tensor\"");
  EXPECT_EQ(of("communication.weights.element").standard, "\"bf16\"");
  EXPECT_NE(of("weights.storage.sr_bits").meaning.find("only with rounding = \"stochastic\""),
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
