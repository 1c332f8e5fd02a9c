#include "tools/keys_page.h"

#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "recipe/operand_keys.h"
#include "recipe/settings_keys.h"
#include "train/run_keys.h"

namespace ng {
namespace {

TEST(KeysPage, IsThatOfTheDocumentation) {
  const std::string committed = read_file(std::string(NG_SOURCE_DIR) + "/docs/keys.md", 1 << 20);
  EXPECT_EQ(committed, keys_page()) << "./narrowgauge keys --markdown > docs/keys.md";
}

TEST(KeysPage, HasARowForEveryKey) {
  const std::string page = keys_page();
  const auto has = [&](const std::string& path) {
    return page.find("| `" + path + "` | ") != page.npos;
  };
  for (const auto& key : run_keys()) EXPECT_TRUE(has(key.path)) << key.path;
  for (const auto& key : settings_keys()) EXPECT_TRUE(has(key.path)) << key.path;
  for (const OperandKey& key : operand_keys()) EXPECT_TRUE(has(key.path)) << key.path;
  for (const char* path : {"inherit", "override.blocks", "phase.start"}) EXPECT_TRUE(has(path));
  EXPECT_NE(page.find("| `--sr-bits` | `random_bits` |"), page.npos);
}

TEST(KeyFacts, NameEachKeyOnceAndThoseOfOperandsByFullPath) {
  std::set<std::string> keys;
  for (const KeyFacts& facts : all_key_facts())
    EXPECT_TRUE(keys.insert(facts.key).second) << facts.key;
  for (const auto& key : settings_keys())
    for (const OperandKey& below : operand_keys())
      EXPECT_LE(keys.contains(key.path + "." + below.path), key.type == kOperandType) << key.path;
  EXPECT_TRUE(keys.contains("linear.dgrad.grad.block"));
  EXPECT_TRUE(keys.contains("dpo.reference_storage.format"));
}

}  // namespace
}  // namespace ng
