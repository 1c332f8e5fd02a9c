#include "tokenizer/rewritten_text.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

std::vector<int64_t> places(const RewrittenText& text) {
  std::vector<int64_t> places;
  for (size_t at = 0; at <= text.text().size(); ++at)
    places.push_back(text.place_of(static_cast<int64_t>(at)));
  return places;
}

using Places = std::vector<int64_t>;

TEST(RewrittenText, IsTheOriginalWhereNothingChanges) {
  const std::string original = "caf\u00e9";
  RewrittenText text(original, true);
  text.make_valid();
  text.normalize(UnicodeForm::nfc);
  text.replace(" ", "_");
  EXPECT_EQ(text.text().data(), original.data()) << "no copy";
  EXPECT_EQ(places(text), (Places{0, 1, 2, 3, 4, 5}));
}

// As b"...".decode(errors="replace"): one U+FFFD for the longest prefix of a valid sequence.
TEST(RewrittenText, TakesIllFormedPartsForU_FFFD) {
  RewrittenText text("a\xE2\x82z\xFF\xC0\xAF", true);
  text.make_valid();
  EXPECT_EQ(text.text(), "a\uFFFDz\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(places(text), (Places{0, 1, 1, 1, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7}));
}

TEST(RewrittenText, ComposesAndKnowsWhereFrom) {
  RewrittenText text("ae\u0301z\u1100\u1161", true);  // e + acute, Hangul L + V
  text.normalize(UnicodeForm::nfc);
  EXPECT_EQ(text.text(), "a\u00e9z\uac00");
  EXPECT_EQ(places(text), (Places{0, 1, 1, 4, 5, 5, 5, 11}));
}

TEST(RewrittenText, ReplacesAndPrependsAsSentencepieceDoes) {
  RewrittenText text(" a  b", true);
  text.prepend("\u2581");
  text.replace(" ", "\u2581");
  EXPECT_EQ(text.text(), "\u2581\u2581a\u2581\u2581b");
  EXPECT_EQ(places(text), (Places{0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3, 4, 5}));
  RewrittenText empty("", true);
  empty.prepend("x");
  EXPECT_EQ(empty.text(), "");
}

}  // namespace
}  // namespace ng
