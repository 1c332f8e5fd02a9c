#include "tokenizer/split_pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/known_patterns.h"

namespace ng {
namespace {

using Strings = std::vector<std::string>;

Strings pieces(const std::string& pattern, const std::string& text) {
  const SplitPattern split(pattern, "", "");
  std::string buffer;
  SplitScratch scratch;
  const std::string_view old = with_old_characters(text, buffer);
  Pieces cursor(split, split.searched(text, old, scratch), scratch);
  Strings found;
  for (Pieces::Piece piece{}; cursor.next(piece);)
    found.push_back(text.substr(piece.begin, piece.end - piece.begin));
  return found;
}

Strings known(std::string_view name, const std::string& text) {
  return pieces(std::string(known_pattern(name)), text);
}

TEST(SplitPattern, KeepsMatchesAndWhatLiesBetween) {
  EXPECT_EQ(pieces("b+", "abbac"), (Strings{"a", "bb", "ac"}));
  EXPECT_EQ(pieces("b+", "bb"), (Strings{"bb"}));
  EXPECT_EQ(pieces("b+", ""), Strings{});
}

TEST(SplitPattern, CutsAsTheModelsDo) {
  EXPECT_EQ(known("gpt2", "I'll go,  now \n"),
            (Strings{"I", "'ll", " go", ",", " ", " now", " \n"}));
  EXPECT_EQ(known("llama3", "I'LL 12345 \n\nx"),
            (Strings{"I", "'LL", " ", "123", "45", " \n\n", "x"}));
  EXPECT_EQ(known("qwen2", "a12"), (Strings{"a", "1", "2"}));
  EXPECT_EQ(known("o200k", "helloWorld's /\n/"), (Strings{"hello", "World's", " /\n/"}));
  EXPECT_EQ(known("llama3", "'\u017f"), (Strings{"'\u017f"})) << "the long s is an s";
}

// U+A7CB is a letter since Unicode 16, U+10D40 a digit; U+180E has been no space since 6.3.
TEST(SplitPattern, GoesByUnicode16) {
  EXPECT_EQ(known("gpt2", "a\uA7CBb"), (Strings{"a\uA7CBb"}));
  EXPECT_EQ(known("gpt2", "1\U00010D40"), (Strings{"1\U00010D40"}));
  EXPECT_EQ(known("gpt2", ".\u180E."), (Strings{".\u180E."}));
  EXPECT_EQ(known("gpt2", "a\u0085b"), (Strings{"a", "\u0085", "b"}));
}

// As tokenizers cuts them; U+31350 came with Unicode 15, U+A7CB with 16.
TEST(SplitPattern, TellsCharactersBeyondAscii) {
  EXPECT_EQ(pieces("[\u4e00-\u9fa5]+", "a\u4e00\u9fa5\u9fa6b"),
            (Strings{"a", "\u4e00\u9fa5", "\u9fa6b"}));
  EXPECT_EQ(pieces("[^\u4e00-\u9fa5]+", "a\u4e00\u9fa5\u9fa6b"),
            (Strings{"a", "\u4e00\u9fa5", "\u9fa6b"}));
  EXPECT_EQ(pieces("\u00e9|\\p{L}+", "na\u00efve\u00e9e"), (Strings{"na\u00efve\u00e9e"}));
  EXPECT_EQ(pieces("\u00e9", "na\u00efve\u00e9e"), (Strings{"na\u00efve", "\u00e9", "e"}));
  EXPECT_EQ(pieces("[\u00e9\\P{L}]", "a\u00e9\ua7cb\U00031350 "),
            (Strings{"a", "\u00e9", "\ua7cb\U00031350", " "}));
  EXPECT_EQ(pieces("\\x{4E00}|\\u4e01|\\u0041", "A\u4e00\u4e01\u4e02B"),
            (Strings{"A", "\u4e00", "\u4e01", "\u4e02B"}));
  EXPECT_EQ(pieces("[\u3000-\u3002\\s]", "a\u3001 \u2003\u180eb"),
            (Strings{"a", "\u3001", " ", "\u2003", "\u180eb"}));
  EXPECT_EQ(pieces("(?i:'s)|\u4e00", "'\u017f'S\u4e00"), (Strings{"'\u017f", "'S", "\u4e00"}));
  EXPECT_EQ(pieces("[\u2018-\u201f]+$", "\u2018\n\u201f."), (Strings{"\u2018", "\n\u201f."}));
}

TEST(SplitPattern, CutsAsDeepSeekDoes) {
  EXPECT_EQ(known("deepseek letters", "a\u00b5\u01bb \u0416\u00e9\u00aa"),
            (Strings{"a\u00b5", "\u01bb", " \u0416\u00e9", "\u00aa"}));
  EXPECT_EQ(known("deepseek CJK", "\u4f60\u597d\uff01\ud55c\u0800"),
            (Strings{"\u4f60\u597d", "\uff01", "\ud55c\u0800"}));
  EXPECT_EQ(known("deepseek-v3", "x(+=1);\r\n\n .a \u0915\u094d\u0937"),
            (Strings{"x", "(+=", "1", ");\r\n\n", " .", "a", " \u0915\u094d\u0937"}));
  EXPECT_EQ(known("qwen35", "\u0915\u094d\u0937 'LL12"),
            (Strings{"\u0915\u094d\u0937", " '", "LL", "1", "2"}));
  EXPECT_EQ(canonical_pattern("[\r\n\t ]\\s"), "[\\r\\n\\t ]\\s");
}

TEST(SplitPattern, RefusesWhatItCannotKeepOrCompile) {
  const std::pair<const char*, const char*> kCases[] = {
      {"\\d+", "with \\d"},
      {"[\u4e00-\u9fff&&a]+", "with classes joined"},
      {"[\u4e00[a]]+", "with a class in a class"},
      {"[]\u4e00]+", "begins with ]"},
      {"[\u4e00", "without its ]"},
      {"[\u9fff-\u4e00]", "does not ascend"},
      {"[\u4e00-\\s]", "does not ascend"},
      {"(?i:\u00e9)", "and (?i)"},
      {"\\x41", "name no character"},
      {"\\x{110000}", "name no character"},
      {"\\uD800", "name no character"},
      {"\\u4e0", "name no character"},
      {"\u4e00*", "empty"},
      {"(\u4e00", "parenthesis"},
      {"\\p{Nd}", "with \\p{Nd}"},
      {"\\p{Han}", "with \\p{Han}"},
      {"\\w+", "with \\w"},
      {"[[:alpha:]]+", "[: :]"},
      {"a*", "empty"},
      {"(a", "parenthesis"},
      {"\\pL+", "with \\p"},
      {"a\\", "\\ at end"}};
  for (const auto& [pattern, says] : kCases) {
    try {
      const SplitPattern split(pattern, "t.json", "pre_tokenizer");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with("t.json: pre_tokenizer: ")) << what;
      EXPECT_NE(what.find(says), std::string::npos) << what;
    }
  }
}

// A run of letters that a class of the pattern could give back one by one.
TEST(SplitPattern, TakesLongRunsAndSaysWhereAPatternTakesForever) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "o200k", "qwen35", "deepseek-v3",
                           "deepseek letters", "deepseek CJK", "numerics"})
    for (const char* run : {"a", "A", " ", "\n", "1", "!", "\u4e00"}) {
      std::string text;
      for (int i = 0; i < 300000; ++i) text += run;
      EXPECT_FALSE(known(name, text + "x").empty()) << name << run;
    }
  EXPECT_THROW((void)pieces("(?:a|aa)+!", std::string(300, 'a') + "b!"), Error);
}

}  // namespace
}  // namespace ng
