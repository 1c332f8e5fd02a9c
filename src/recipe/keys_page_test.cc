#include "recipe/keys_page.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "recipe/operand_keys.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

TEST(KeysPage, IsThatOfTheDocumentation) {
  const std::string committed =
      read_file(std::string(NG_SOURCE_DIR) + "/docs/recipe-keys.md", kMaxTomlBytes);
  EXPECT_EQ(committed, recipe_keys_page()) << "./narrowgauge recipes --keys > docs/recipe-keys.md";
}

TEST(KeysPage, HasARowForEveryKey) {
  const std::string page = recipe_keys_page();
  const auto has = [&](const std::string& path) {
    return page.find("| `" + path + "` | ") != page.npos;
  };
  for (const auto& key : settings_keys()) EXPECT_TRUE(has(key.path)) << key.path;
  for (const OperandKey& key : operand_keys()) EXPECT_TRUE(has(key.path)) << key.path;
  for (const char* path : {"inherit", "override.blocks", "phase.start"}) EXPECT_TRUE(has(path));
  EXPECT_NE(page.find("only with rounding = \"stochastic\" | `--sr-bits` | `random_bits` |"),
            page.npos);
}

}  // namespace
}  // namespace ng
