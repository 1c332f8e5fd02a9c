#include "train/run_keys.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ng {
namespace {

TEST(RunKeys, EveryKeyIsDocumentedWithAnExampleThatIsRead) {
  for (const KeyFacts& key : run_key_facts()) {
    EXPECT_FALSE(key.values.empty()) << key.key;
    EXPECT_FALSE(key.meaning.empty()) << key.key;
    EXPECT_NO_THROW((void)RunConfig::parse(key.line, "run.toml")) << key.line;
  }
  const std::vector<KeyFacts> all = run_key_facts();
  for (const Key<RunConfig>& row : run_keys()) {
    const auto facts = std::find_if(all.begin(), all.end(),
                                    [&](const KeyFacts& key) { return key.key == row.path; });
    ASSERT_NE(facts, all.end()) << row.path;
    const toml::table table = parse_toml(row.path + " = " + facts->example, "example");
    const std::optional<TomlItem> item = find_item(table, row.path, "");
    ASSERT_TRUE(item) << row.path;
    RunConfig config;
    EXPECT_NO_THROW(row.read(config, *item)) << row.path << facts->example;
  }
}

}  // namespace
}  // namespace ng
