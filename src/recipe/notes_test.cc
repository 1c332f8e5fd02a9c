#include "recipe/notes.h"

#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

TEST(RecipeNotes, AreTheParagraphsOfTheFirstComment) {
  const RecipeNotes notes = notes_in(
      "# Narrow, in all\n# three GEMMs. More of it.\n# Source: A. Author, \"On Bits\"\n# (2025).\n"
      "# Claim: 4.2 times.\n#\n# Deviates: the head\n# is wide.\nname = \"x\"\n# Source: not "
      "this\n");
  EXPECT_EQ(notes.summary, "Narrow, in all three GEMMs");
  EXPECT_EQ(notes.source, "A. Author, \"On Bits\" (2025)");
  EXPECT_EQ(notes.claim, "4.2 times");
  EXPECT_EQ(notes.deviates, "the head is wide");
}

TEST(RecipeNotes, AreEmptyWhereNothingIsSaid) {
  for (const char* file : {"", "#", "name = \"x\"", "# Source:", "#\n# Claim: \n"}) {
    const RecipeNotes notes = notes_in(file);
    EXPECT_EQ(notes.summary + notes.source + notes.claim + notes.deviates, "") << file;
  }
  EXPECT_EQ(notes_in("# Only this").summary, "Only this");
}

TEST(RecipeNotes, OfEachNamedRecipeSayWhereItIsFrom) {
  std::set<std::string> without;
  for (const std::string& name : recipe_names()) {
    const RecipeNotes notes = notes_in(read_file(Recipe::load(name).place(), 1 << 16));
    EXPECT_NE(notes.summary, "") << name;
    if (notes.source.empty()) without.insert(name);
  }
  EXPECT_EQ(without, (std::set<std::string>{"bf16", "fp32"}));
}

}  // namespace
}  // namespace ng
