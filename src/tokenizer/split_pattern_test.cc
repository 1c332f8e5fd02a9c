#include "tokenizer/split_pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

using Strings = std::vector<std::string>;

Strings pieces(const std::string& pattern, const std::string& text) {
  const SplitPattern split(pattern, "", "");
  std::string buffer;
  SplitScratch scratch;
  Pieces cursor(split, with_old_characters(text, buffer), scratch);
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

TEST(SplitPattern, RefusesWhatItCannotKeepOrCompile) {
  const std::pair<const char*, const char*> kCases[] = {{"\\d+", "with \\d"},
                                                        {"[\u4e00-\u9fff]+", "not ASCII"},
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
  for (const char* name : {"gpt2", "llama3", "qwen2", "o200k"})
    for (const char* run : {"a", "A", " ", "\n", "1", "!", "\u4e00"}) {
      std::string text;
      for (int i = 0; i < 300000; ++i) text += run;
      EXPECT_FALSE(known(name, text + "x").empty()) << name << run;
    }
  EXPECT_THROW((void)pieces("(?:a|aa)+!", std::string(300, 'a') + "b!"), Error);
}

}  // namespace
}  // namespace ng
