#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace ng
