// docs/recipes.md writes recipes of papers out: they are those of recipes/.
#include <gtest/gtest.h>

#include <sstream>

#include "base/files.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

TEST(RecipesPage, HasTheRecipesOfPapersAsTheyAre) {
  constexpr std::string_view kSame = "# as recipes/";
  std::istringstream page(read_file(std::string(NG_SOURCE_DIR) + "/docs/recipes.md", 1 << 20));
  int recipes = 0;
  for (std::string line; std::getline(page, line);) {
    if (line != "```toml" || !std::getline(page, line) || !line.starts_with(kSame)) continue;
    const std::string name = line.substr(kSame.size(), line.find(".toml") - kSame.size());
    std::string toml;
    while (std::getline(page, line) && line != "```") toml += line + '\n';
    EXPECT_EQ(Recipe::parse(toml, "page").hash(), Recipe::load(name).hash()) << name;
    ++recipes;
  }
  EXPECT_EQ(recipes, 5);
}

}  // namespace
}  // namespace ng
