#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ng {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("format", "format"), 0);
  EXPECT_EQ(edit_distance("fromat", "format"), 1);
  EXPECT_EQ(edit_distance("formt", "format"), 1);
  EXPECT_EQ(edit_distance("formats", "format"), 1);
  EXPECT_EQ(edit_distance("MXFP4", "mxfp4"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, TakesTheFirstOfTheClosest) {
  constexpr std::array<std::string_view, 5> names = {"mxfp8", "mxfp6", "mxfp4", "nvfp4", "steps"};
  EXPECT_EQ(nearest("mxfp5", names), "mxfp8");
  EXPECT_EQ(nearest("nvfp", names), "nvfp4");
  EXPECT_EQ(nearest("setps", names), "steps");
  EXPECT_EQ(nearest("x", std::span<const std::string_view>()), "");
}

TEST(DidYouMean, SuggestsOnlyWhatASlipExplains) {
  constexpr std::array<std::string_view, 3> names = {"info", "step", "mxfp4-sr-rht"};
  EXPECT_EQ(did_you_mean("infp", names), "did you mean \"info\"? ");
  EXPECT_EQ(did_you_mean("mxfp4-sr", names), "did you mean \"mxfp4-sr-rht\"? ");
  const std::vector<std::string> owned = {"steps", "batch"};
  EXPECT_EQ(did_you_mean("setps", owned), "did you mean \"steps\"? ");
  EXPECT_EQ(did_you_mean("foo", names), "");
  EXPECT_EQ(did_you_mean("", names), "");
  EXPECT_EQ(did_you_mean("x", std::span<const std::string>()), "");
}

}  // namespace
}  // namespace ng
