#include "base/glob.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

namespace ng {
namespace {

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "blocks.0.attn.q"));
  EXPECT_TRUE(glob_matches("blocks.*", "blocks.0.attn.q"));
  EXPECT_TRUE(glob_matches("*.attn.out", "blocks.11.attn.out"));
  EXPECT_FALSE(glob_matches("*.attn.out", "blocks.11.attn.out2"));
  EXPECT_TRUE(glob_matches("b*.*.a?tn.*", "blocks.3.attn.qkv"));
  EXPECT_FALSE(glob_matches("blocks.?.mlp.up", "blocks.10.mlp.up"));
  EXPECT_TRUE(glob_matches("*aab", "aaaab"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_TRUE(glob_matches("head**", "head"));
}

TEST(Glob, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(5000, 'a')));
}

class GlobFiles : public ::testing::Test {
 protected:
  GlobFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ng-glob-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    for (const char* name : {"a/x.st", "a/y.st", "b/x.st", "b/x/z.st", ".c/x.st", "a/.x.st"}) {
      const std::filesystem::path path = folder_ / name;
      make_folders(path.parent_path().string());
      write_file_atomically(path.string(), "");
    }
  }
  ~GlobFiles() override { std::filesystem::remove_all(folder_); }

  /// Below the folder.
  [[nodiscard]] std::vector<std::string> matches(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const std::string& path : matching_files(folder_ / pattern))
      names.push_back(std::filesystem::path(path).lexically_relative(folder_));
    return names;
  }

  std::filesystem::path folder_;
};

TEST_F(GlobFiles, WildcardsInAnyPart) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(matches("*/x.st"), (Names{"a/x.st", "b/x.st"}));
  EXPECT_EQ(matches("?/*.st"), (Names{"a/x.st", "a/y.st", "b/x.st"}));
  EXPECT_EQ(matches("a/*"), (Names{"a/x.st", "a/y.st"}));
  EXPECT_EQ(matches("*/*/z*"), (Names{"b/x/z.st"}));
  EXPECT_EQ(matches("../*/b//*/z.st").size(), 1U);
  EXPECT_EQ(matches(".c/*"), (Names{".c/x.st"}));
  EXPECT_EQ(matches("?c/.x*"), Names{});
  EXPECT_EQ(matches("a/.x*"), (Names{"a/.x.st"}));
}

TEST_F(GlobFiles, NothingElseMatches) {
  for (const char* pattern : {"*.st", "a*x.st", "none/*", "a/x.st/*", "*", "*/x.st/", "*/none"})
    EXPECT_TRUE(matches(pattern).empty()) << pattern;
}

}  // namespace
}  // namespace ng
