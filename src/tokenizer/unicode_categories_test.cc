#include "tokenizer/unicode_categories.h"

#include <gtest/gtest.h>

#include <array>

namespace ng {
namespace {

// Counts of Unicode 16.0.0's DerivedGeneralCategory.txt, those of White_Space taken out.
TEST(UnicodeCategories, AreAsManyAsInUnicode16) {
  std::array<int, 14> counts{};
  for (char32_t c = 0; c < 0x110000; ++c) ++counts[static_cast<size_t>(category_of(c))];
  EXPECT_EQ(counts, (std::array<int, 14>{1858, 2258, 31, 404, 136477, 2501, 760, 236, 915, 10, 845,
                                         8514, 25, 959278}));
}

TEST(UnicodeCategories, OfSingleCodePoints) {
  EXPECT_EQ(category_of('A'), Category::uppercase);
  EXPECT_EQ(category_of(0x17F), Category::lowercase);
  EXPECT_EQ(category_of(0x1C5), Category::titlecase);
  EXPECT_EQ(category_of(0x2B0), Category::modifier_letter);
  EXPECT_EQ(category_of(0x4E00), Category::other_letter);
  EXPECT_EQ(category_of(0x301), Category::mark);
  EXPECT_EQ(category_of(0x663), Category::decimal_number);
  EXPECT_EQ(category_of(0x216B), Category::letter_number);
  EXPECT_EQ(category_of(0xBD), Category::other_number);
  EXPECT_EQ(category_of('_'), Category::connector);
  EXPECT_EQ(category_of('!'), Category::punctuation);
  EXPECT_EQ(category_of(0x20AC), Category::symbol);
  for (char32_t space : {0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x3000})
    EXPECT_EQ(category_of(space), Category::space) << unsigned(space);
  EXPECT_EQ(category_of(0x180E), Category::other) << "a space until Unicode 6.2";
  EXPECT_EQ(category_of(0x10FFFF), Category::other);
}

// PCRE2 10.42 knows none of them.
TEST(UnicodeCategories, OfCodePointsThatAreNewerThanUnicode14) {
  EXPECT_EQ(category_of(0xA7CB), Category::uppercase);
  EXPECT_EQ(category_of(0x105C0), Category::other_letter);
  EXPECT_EQ(category_of(0x10D40), Category::decimal_number);
  EXPECT_EQ(category_of(0x1FAE9), Category::symbol);
  EXPECT_EQ(category_of(0x31350), Category::other_letter);
}

TEST(UnicodeCategories, SayWhatAWordIsMadeOf) {
  for (char32_t c : {U'a', U'_', U'7', U'\u0301', U'\u2167', U'\u200D', U'\u24D0'})
    EXPECT_TRUE(is_word_character(c)) << unsigned(c);
  for (char32_t c : {U' ', U'-', U'\u00BD', U'\u20AC', U'\u200B', U'\u2460'})
    EXPECT_FALSE(is_word_character(c)) << unsigned(c);
}

}  // namespace
}  // namespace ng
