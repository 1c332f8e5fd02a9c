#include "tokenizer/bpe_merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ng {
namespace {

// Names are texts of a and b; every pair of names of at most eight characters may be a merge.
struct Grammar {
  std::vector<std::string> names = {"a", "b"};
  std::vector<std::pair<int32_t, int32_t>> merges;
  std::map<std::string, int32_t> ids = {{"a", 0}, {"b", 1}};
  BpeMerges table{4};  // grows

  explicit Grammar(std::mt19937& draw) {
    while (merges.size() < 60) {
      const auto left = int32_t(draw() % names.size()), right = int32_t(draw() % names.size());
      const std::string name = names[size_t(left)] + names[size_t(right)];
      if (name.size() > 8) continue;
      const auto [found, is_new] = ids.emplace(name, int32_t(names.size()));
      if (is_new) names.push_back(name);
      table.add(left, right, {uint32_t(merges.size()), found->second});
      merges.emplace_back(left, right);
    }
  }

  // The definition: the last rank that a pair got counts; lowest rank first, leftmost among equals.
  [[nodiscard]] std::vector<int32_t> merged(std::vector<int32_t> text) const {
    std::map<std::pair<int32_t, int32_t>, size_t> ranks;
    for (size_t i = 0; i < merges.size(); ++i) ranks[merges[i]] = i;
    for (;;) {
      size_t best = SIZE_MAX, at = 0;
      for (size_t i = 0; i + 1 < text.size(); ++i) {
        const auto found = ranks.find({text[i], text[i + 1]});
        if (found == ranks.end() || found->second >= best) continue;
        best = found->second;
        at = i;
      }
      if (best == SIZE_MAX) return text;
      text[at] = ids.at(names[size_t(text[at])] + names[size_t(text[at + 1])]);
      text.erase(text.begin() + std::ptrdiff_t(at) + 1);
    }
  }
};

// Few symbols are looked through, many wait in a heap.
TEST(BpeMerges, TakeTheLowestRankAndLeftmostPairFirst) {
  std::mt19937 draw(1);
  MergeScratch scratch;
  for (size_t round = 0; round < 300; ++round) {
    const Grammar grammar(draw);
    std::vector<int32_t> text;
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < round; ++i) {
      text.push_back(int32_t(draw() % 2));
      symbols.push_back({text.back(), 1});
    }
    grammar.table.apply(symbols, scratch);
    std::vector<int32_t> ids;
    for (const Symbol& symbol : symbols) {
      ids.push_back(symbol.id);
      EXPECT_EQ(symbol.bytes, grammar.names[size_t(symbol.id)].size());
    }
    ASSERT_EQ(ids, grammar.merged(text)) << round;
  }
}

TEST(BpeMerges, FindsOnlyWhatWasAdded) {
  BpeMerges merges(1);
  for (int32_t i = 0; i < 1000; ++i) merges.add(i, i + 1, {uint32_t(i), i + 2000});
  merges.add(5, 6, {7, 8});
  EXPECT_EQ(merges.find(5, 6).rank, 7u) << "the later one counts";
  EXPECT_EQ(merges.find(999, 1000).id, 2999);
  EXPECT_EQ(merges.find(6, 5).rank, BpeMerges::kNone);
  EXPECT_EQ(merges.find(1000, 1001).rank, BpeMerges::kNone);
}

}  // namespace
}  // namespace ng
