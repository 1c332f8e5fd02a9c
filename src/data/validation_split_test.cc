#include "data/validation_split.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/files.h"
#include "data/corpus.h"
#include "data/masked_tokens.h"
#include "data/memory_source.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

/// One document of plain text.
MemorySource text_of(int64_t tokens) {
  const auto size = static_cast<size_t>(tokens);
  return {{.ids = std::vector<int32_t>(size),
           .is_target = std::vector<uint8_t>(size, 1),
           .begins = {0}},
          std::vector<int64_t>(1, 1)};
}

/// Documents of so many tokens each, which are kept whole.
MemorySource documents_of(const std::vector<int64_t>& sizes) {
  MaskedTokens tokens;
  for (const int64_t size : sizes) {
    const auto count = static_cast<size_t>(size);
    tokens.add({.ids = std::vector<int32_t>(count), .is_target = std::vector<uint8_t>(count, 1)});
  }
  MemorySource source(tokens, std::vector<int64_t>(1, 1));
  source.keep_documents();
  return source;
}

int64_t tokens_of(const std::vector<TextPiece>& pieces) {
  int64_t tokens = 0;
  for (const TextPiece& piece : pieces) tokens += piece.count;
  return tokens;
}

/// Both parts have all of the text together, each token once.
void expect_whole(const SplitText& split, int64_t tokens) {
  std::vector<TextPiece> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  int64_t end = 0;
  for (const TextPiece& piece : all) {
    EXPECT_EQ(piece.first, end);
    EXPECT_TRUE(piece.count > 0 || split.validation.size() == 1);
    end += piece.count;
  }
  EXPECT_EQ(end, tokens);
}

TEST(ValidationSplit, TheTailIsTheEnd) {
  const SplitText split = split_text(text_of(1001), 0.1, ValidationSplit::tail);
  ASSERT_EQ(split.validation.size(), 1u);
  EXPECT_EQ(split.validation[0].first, 901);
  EXPECT_EQ(split.validation[0].count, 100);
  EXPECT_EQ(split.train.size(), 1u);
  expect_whole(split, 1001);
}

// Sizes at which the number of blocks changes: 1, 8, more of 4,096 tokens, 256.
TEST(ValidationSplit, SpreadTakesOneBlockOfEachEqualPart) {
  for (const auto& [tokens, blocks] :
       {std::pair<int64_t, size_t>{1000, 1}, {12'000, 8}, {4'000'000, 48}, {40'000'000, 256}}) {
    const SplitText split = split_text(text_of(tokens), 0.05, ValidationSplit::spread);
    EXPECT_EQ(tokens_of(split.validation), tokens / 20);
    ASSERT_EQ(split.validation.size(), blocks);
    expect_whole(split, tokens);
    const auto parts = static_cast<int64_t>(blocks);
    for (int64_t i = 0; i < parts; ++i) {
      const TextPiece& block = split.validation[static_cast<size_t>(i)];
      EXPECT_GE(block.first, tokens * i / parts);
      EXPECT_LE(block.first + block.count, tokens * (i + 1) / parts);
    }
  }
}

TEST(ValidationSplit, OfNothingOrOneTokenIsNoBlock) {
  EXPECT_EQ(tokens_of(split_text(text_of(100), 0, ValidationSplit::spread).validation), 0);
  EXPECT_EQ(tokens_of(split_text(text_of(19), 0.05, ValidationSplit::spread).validation), 0);
  EXPECT_EQ(tokens_of(split_text(text_of(20), 0.05, ValidationSplit::spread).validation), 1);
  expect_whole(split_text(text_of(20), 0.05, ValidationSplit::spread), 20);
}

TEST(ValidationSplit, DocumentsStayWhole) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 400; ++i) sizes.push_back(1 + i * 7919 % 300);
  const MemorySource source = documents_of(sizes);
  const SplitText split = split_text(source, 0.1, ValidationSplit::spread);
  expect_whole(split, source.tokens());
  EXPECT_GE(split.validation.size(), 6u);
  EXPECT_NEAR(static_cast<double>(tokens_of(split.validation)),
              0.1 * static_cast<double>(source.tokens()), 300);
  std::vector<uint8_t> begins(static_cast<size_t>(source.tokens()));
  source.read_begins(0, begins);
  for (const std::vector<TextPiece>& part : {split.train, split.validation})
    for (const TextPiece& piece : part) EXPECT_EQ(begins[static_cast<size_t>(piece.first)], 1);
}

TEST(ValidationSplit, OfFewLongDocumentsOneIsTakenAndOneLeft) {
  for (const auto& sizes : {std::vector<int64_t>{900, 1000}, {5000, 3, 4}, {3, 5000}}) {
    const MemorySource source = documents_of(sizes);
    const SplitText split = split_text(source, 0.05, ValidationSplit::spread);
    expect_whole(split, source.tokens());
    EXPECT_GT(tokens_of(split.validation), 0);
    EXPECT_GT(tokens_of(split.train), 0);
  }
  const SplitText alone = split_text(documents_of({1000}), 0.05, ValidationSplit::spread);
  EXPECT_EQ(tokens_of(alone.validation), 50) << "its end";
  EXPECT_EQ(alone.validation.front().first, 950);
}

TEST(ValidationSplit, FewerTokensAreTheBeginningOfEachBlock) {
  const std::vector<TextPiece> blocks = {{100, 500}, {1000, 500}, {2000, 500}, {3000, 10}};
  const std::vector<TextPiece> some = shortened(blocks, 1000);
  ASSERT_EQ(some.size(), 4u);
  EXPECT_EQ(some[0].first, 100);
  EXPECT_EQ(some[0].count, 250);
  EXPECT_EQ(some[3].count, 10);
  const std::vector<TextPiece> few = shortened(blocks, 130);
  ASSERT_EQ(few.size(), 2u) << "64 tokens at least";
  EXPECT_EQ(few[1].first, 2000);
  EXPECT_EQ(tokens_of(few), 130);
  EXPECT_EQ(tokens_of(shortened(blocks, 0)), 1510);
  EXPECT_EQ(tokens_of(shortened({{7, 100}}, 9)), 9) << "of one piece the first";
}

// "tail" is no advice where the blocks are long and only so few tokens of them were asked for.
TEST(ValidationSplit, WhatIsShortForWantOfTokensIsToldSo) {
  const std::string path = testing::TempDir() + "validation_split_test.txt";
  write_file_atomically(path, std::string(25'000, 'x'));
  const DataConfig config{
      .place = "", .train = {path}, .validation_share = 0.1, .validation_tokens = 800};
  const Corpus corpus = open_corpus(config, ByteTokenizer());
  EXPECT_EQ(corpus.warnings(200).at(0).find(
                "8 blocks to validate on have 100 tokens each, no more than a sequence of 200: a "
                "larger data.validation_tokens makes them longer, data.validation_split"),
            0u)
      << corpus.warnings(200).at(0);
  EXPECT_EQ(corpus.warnings(313).at(0).find("a larger"), std::string::npos) << "they have 312";
}

TEST(ValidationSplit, OfItemsOneOfEachPart) {
  EXPECT_TRUE(spread_items(10, 0).empty());
  EXPECT_EQ(spread_items(3, 3), (std::vector<int64_t>{0, 1, 2}));
  const std::vector<int64_t> some = spread_items(1000, 10);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(some[static_cast<size_t>(i)] / 100, i);
}

}  // namespace
}  // namespace ng
