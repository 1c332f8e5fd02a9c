#include "comm/sum_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace ng {
namespace {

const auto kJoin = [](std::string& a, const std::string& b) { a = "(" + a + b + ")"; };

std::string leaf(int64_t i) { return std::string(1, static_cast<char>('a' + i)); }

/// The additions where each of `ranks` sums its own leaves before the nodes of all are added.
std::string sum_over(int64_t leaves, int64_t ranks) {
  SumTree<std::string> whole;
  const int64_t own = leaves / ranks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    SumTree<std::string> mine;
    for (int64_t i = rank * own; i < (rank + 1) * own; ++i) mine.push({0, i}, leaf(i), kJoin);
    for (auto& [node, value] : mine.sums()) whole.push(node, std::move(value), kJoin);
  }
  return whole.finish(kJoin);
}

TEST(SumTree, AddsNeighboursLevelByLevel) {
  EXPECT_EQ(sum_over(1, 1), "a");
  EXPECT_EQ(sum_over(4, 1), "((ab)(cd))");
  EXPECT_EQ(sum_over(7, 1), "(((ab)(cd))((ef)g))");
}

TEST(SumTree, TheRanksDoNotChangeTheAdditions) {
  for (const int64_t leaves : {6, 8, 12, 24})
    for (int64_t ranks = 1; ranks <= leaves; ++ranks)
      if (leaves % ranks == 0) {
        EXPECT_EQ(sum_over(leaves, ranks), sum_over(leaves, 1)) << leaves << " on " << ranks;
      }
}

TEST(SumTree, NodesOfARank) {
  EXPECT_EQ(nodes_of(0, 4), (std::vector<TreeNode>{{2, 0}}));
  EXPECT_EQ(nodes_of(3, 3), (std::vector<TreeNode>{{0, 3}, {1, 2}}));
}

TEST(SumTree, MostSumsAtOnce) {
  EXPECT_EQ(most_sums_of(0, 1), 1u);
  EXPECT_EQ(most_sums_of(0, 4), 3u) << "(ab) c d";
  EXPECT_EQ(most_sums_of(0, 64), 7u);
  EXPECT_EQ(most_sums_of(3, 5), 4u) << "d (ef) g h";
}

}  // namespace
}  // namespace ng
