#include "base/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/first_of.h"

namespace ng {
namespace {

const std::string kMark = "\xEF\xBF\xBD";  // U+FFFD

TEST(TextFilter, KeepsValidText) {
  for (const char* text : {"", "plain\n\ttext", "h\xC3\xA9llo", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xC2\xA0", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBD"})
    EXPECT_EQ(readable(text), text);
}

// What bytes.decode("utf-8", errors="replace") gives in Python 3.11.
TEST(TextFilter, ReplacesEachIllFormedPartOnce) {
  EXPECT_EQ(readable("a\xFF"
                     "b"),
            "a" + kMark + "b");
  EXPECT_EQ(readable("\x80\x80"), kMark + kMark);
  EXPECT_EQ(readable("\xC0\x80"), kMark + kMark) << "overlong";
  EXPECT_EQ(readable("\xE2\x82"), kMark) << "cut off";
  EXPECT_EQ(readable("\xE2\x82"
                     "a"),
            kMark + "a");
  EXPECT_EQ(readable("\xF0\x9F\x98"
                     "a"),
            kMark + "a");
  EXPECT_EQ(readable("\xED\xA0\x80"), kMark + kMark + kMark) << "a surrogate";
  EXPECT_EQ(readable("\xE0\x80\x80"), kMark + kMark + kMark) << "overlong";
  EXPECT_EQ(readable("\xF4\x90\x80\x80"), kMark + kMark + kMark + kMark) << "above U+10FFFF";
  EXPECT_EQ(readable("\xF5\x80"), kMark + kMark);
  EXPECT_EQ(readable("\xE2\xC3\xA9"), kMark + "\xC3\xA9");
}

TEST(TextFilter, ShowsNoControlCharacters) {
  EXPECT_EQ(readable("a\x1b[31mb"), "a" + kMark + "[31mb");
  EXPECT_EQ(readable(std::string("a\0b", 3)), "a" + kMark + "b");
  EXPECT_EQ(readable("a\x7F"), "a" + kMark);
  EXPECT_EQ(readable("\xC2\x9B"), kMark) << "a control character of C1";
  EXPECT_EQ(readable("line\r\n"), "line\n");
}

TEST(TextFilter, HoldsBackWhatIsUnfinished) {
  for (const std::string text :
       {"a\xE2\x82\xAC\xF0\x9F\x98\x80z", "\xE2\x82\xC3\xA9\xFF\xF0\x9F", "\xED\xA0\x80\xC3"}) {
    TextFilter filter;
    std::string pieces;
    for (const char byte : text) {
      const std::string piece = filter.push(std::string(1, byte));
      EXPECT_EQ(readable(piece), piece) << "every piece is valid by itself";
      pieces += piece;
    }
    EXPECT_EQ(pieces + filter.finish(), readable(text));
  }
  TextFilter filter;
  EXPECT_EQ(filter.push("\xE2\x82"), "");
  EXPECT_EQ(filter.push("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(filter.finish(), "");
}

TEST(OnOneLine, EscapesControlCharactersAndIllFormedBytes) {
  EXPECT_EQ(on_one_line("h\xC3\xA9llo"), "h\xC3\xA9llo");
  EXPECT_EQ(on_one_line("a\nb\tc\x1b\x7F"), "a\\nb\\tc\\x1b\\x7f");
  EXPECT_EQ(on_one_line("\xFFz\xE2\x82"), "\\xffz\\xe2\\x82");
}

TEST(Utf8, IsKnownAndMade) {
  for (const char* good : {"", "a\n\x01", "h\xC3\xA9", "\xF0\x9F\x98\x80"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
    EXPECT_EQ(as_utf8(good), good);
  }
  for (const char* bad : {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\xAF"}) EXPECT_FALSE(is_utf8(bad));
  EXPECT_EQ(as_utf8("a\xFF\xC3z"), "a\uFFFD\uFFFDz");
}

TEST(SplitAtCommas, KeepsWhatIsEmpty) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split_at_commas(""), (Parts{""}));
  EXPECT_EQ(split_at_commas("a"), (Parts{"a"}));
  EXPECT_EQ(split_at_commas("a,bc"), (Parts{"a", "bc"}));
  EXPECT_EQ(split_at_commas(",a,, "), (Parts{"", "a", "", " "}));
  EXPECT_EQ(split_at_commas("a,"), (Parts{"a", ""}));
}

// The examples of RFC 4180, section 2.
TEST(FirstOf, SaysHowManyMoreThereAre) {
  EXPECT_EQ(first_of({"a", "b"}, 2), "a, b");
  EXPECT_EQ(first_of({"a", "b", "c", "d"}, 2), "a, b and 2 more");
  EXPECT_EQ(first_of({}, 2), "");
}

TEST(CsvField, QuotesWhatWouldEndIt) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("b\r\nbb"), "\"b\r\nbb\"");
  EXPECT_EQ(csv_field("b\"bb"), "\"b\"\"bb\"");
  for (const char* text : {"a,b", "a\nb", "a\rb"})
    EXPECT_EQ(csv_field(text), fmt::format("\"{}\"", text));
}

TEST(ShellQuoted, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(shell_quoted("train.steps=3"), "train.steps=3");
  EXPECT_EQ(shell_quoted("my run"), "'my run'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("$HOME"), "'$HOME'");
}

TEST(Commented, EndsEveryLine) {
  EXPECT_EQ(commented(""), "");
  EXPECT_EQ(commented("a\n\nb"), "# a\n# \n# b\n");
  EXPECT_EQ(commented("a\n"), "# a\n");
}

TEST(Uncommented, GivesBackWhatWasCommented) {
  for (const char* lines : {"", "a\n", "a\n\n# b\n"})
    EXPECT_EQ(uncommented(commented(lines)), lines);
  EXPECT_EQ(uncommented("# a\nb"), "a\nb\n");
}

}  // namespace
}  // namespace ng
