#include "recipe/block_slice.h"

#include <gtest/gtest.h>

#include <vector>

namespace ng {
namespace {

using Blocks = std::vector<int64_t>;

Blocks blocks_of(std::string_view text, int64_t depth) {
  const auto slice = BlockSlice::parse(text);
  EXPECT_TRUE(slice) << text;
  Blocks blocks;
  for (int64_t block = 0; slice && block < depth; ++block)
    if (slice->contains(block, depth)) blocks.push_back(block);
  return blocks;
}

TEST(BlockSlice, IsAPythonSlice) {
  EXPECT_EQ(blocks_of(":2", 12), (Blocks{0, 1}));
  EXPECT_EQ(blocks_of("-8:", 12), (Blocks{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(blocks_of("-8:", 3), (Blocks{0, 1, 2}));
  EXPECT_EQ(blocks_of("3:5", 12), (Blocks{3, 4}));
  EXPECT_EQ(blocks_of("3:5", 4), (Blocks{3}));
  EXPECT_EQ(blocks_of("5:3", 12), Blocks{});
  EXPECT_EQ(blocks_of("1:-1", 4), (Blocks{1, 2}));
  EXPECT_EQ(blocks_of(":", 3), (Blocks{0, 1, 2}));
  EXPECT_EQ(blocks_of("::2", 5), (Blocks{0, 2, 4}));
  EXPECT_EQ(blocks_of("1::3", 8), (Blocks{1, 4, 7}));
  EXPECT_EQ(blocks_of("-0:", 3), (Blocks{0, 1, 2}));
  EXPECT_EQ(blocks_of("::", 2), (Blocks{0, 1}));
}

TEST(BlockSlice, SharesAreRoundedUpToWholeBlocks) {
  EXPECT_EQ(blocks_of("-15%:", 12), (Blocks{10, 11}));
  EXPECT_EQ(blocks_of("-15%:", 20), (Blocks{17, 18, 19}));  // 0.15 · 20 = 3 exactly
  EXPECT_EQ(blocks_of("-15%:", 6), (Blocks{5}));
  EXPECT_EQ(blocks_of("-15%:", 1), (Blocks{0}));
  EXPECT_EQ(blocks_of(":12.5%", 8), (Blocks{0}));
  EXPECT_EQ(blocks_of(":12.501%", 8), (Blocks{0, 1}));
  EXPECT_EQ(blocks_of("50%:", 5), (Blocks{3, 4}));
  EXPECT_EQ(blocks_of("100%:", 5), Blocks{});
  EXPECT_EQ(blocks_of("-0%:", 5), Blocks{});
  EXPECT_EQ(blocks_of(":-0%", 2), (Blocks{0, 1}));
  EXPECT_EQ(blocks_of("-100%:", 2), (Blocks{0, 1}));
}

TEST(BlockSlice, RefusesEverythingElse) {
  for (const char* text :
       {"",   "3",  "a:",  ":b",    "1:2:0", "1:2:-1",   "1:2:3:4", "--1:",        "+1:",  "1 :",
        "-:", "%:", "-%:", "101%:", "1.%:",  "1.2345%:", "1.5:",    "9999999999:", "0x1:", "1e3:"})
    EXPECT_FALSE(BlockSlice::parse(text)) << text;
}

}  // namespace
}  // namespace ng
