#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

using Strings = std::vector<std::string>;

// Tokens in brackets.
Strings parts(const std::vector<AddedToken>& tokens, const std::string& text) {
  Strings found;
  for (const AddedTokens::Part& part : AddedTokens(tokens).parts_of(text)) {
    const std::string words = text.substr(part.begin, part.end - part.begin);
    found.push_back(part.id ? "[" + words + "]" : words);
  }
  return found;
}

TEST(AddedTokens, AreLeftmostAndLongest) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "ab"}, {.id = 2, .content = "abcd"}, {.id = 3, .content = "cde"}};
  EXPECT_EQ(parts(tokens, "xabcde"), (Strings{"x", "[abcd]", "e"}));
  EXPECT_EQ(parts(tokens, "abcab"), (Strings{"[ab]", "c", "[ab]"}));
  EXPECT_EQ(parts(tokens, ""), Strings{});
  EXPECT_EQ(parts({}, "ab"), (Strings{"ab"}));
}

TEST(AddedTokens, SpecialOnesMayBeText) {
  const AddedTokens tokens(
      {{.id = 1, .content = "<s>", .special = true}, {.id = 2, .content = "<s"}});
  const auto parts = tokens.parts_of("<s><s <s>", SpecialTokens::text);
  ASSERT_EQ(parts.size(), 3u) << "what is passed over is not searched again";
  EXPECT_EQ(parts[1].id, 2);
  EXPECT_EQ(parts[1].begin, 3u);
  EXPECT_EQ(tokens.parts_of("<s><s <s>").size(), 4u);
}

TEST(AddedTokens, OfSingleWordsStandAlone) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "word", .single_word = true}};
  EXPECT_EQ(parts(tokens, "word, word"), (Strings{"[word]", ", ", "[word]"}));
  EXPECT_EQ(parts(tokens, "words \u00e9word word_"), (Strings{"words \u00e9word word_"}));
}

// As tokenizers 0.23.3 does it.
TEST(AddedTokens, TakeWhiteSpaceAlong) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "<l>", .lstrip = true},
                                          {.id = 2, .content = "<r>", .rstrip = true},
                                          {.id = 3, .content = "  "}};
  EXPECT_EQ(parts(tokens, "a\u3000 <l> b"), (Strings{"a", "[\u3000 <l>]", " b"}));
  EXPECT_EQ(parts(tokens, "a <r> \u00a0b"), (Strings{"a ", "[<r> \u00a0]", "b"}));
  EXPECT_EQ(parts(tokens, "<r>   b"), (Strings{"[<r>   ]", "[  ]", " b"})) << "run over";
  const std::vector<AddedToken> both = {{.id = 1, .content = "\n", .rstrip = true},
                                        {.id = 2, .content = "  ", .lstrip = true, .rstrip = true}};
  EXPECT_EQ(parts(both, "\n  x"), (Strings{"[\n  ]", "x"})) << "nothing left";
}

}  // namespace
}  // namespace ng
