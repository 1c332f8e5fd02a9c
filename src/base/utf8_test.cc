#include "base/utf8.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(Utf8, WritesAndReadsEveryCodePoint) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = utf8_of(c);
    const Utf8Character character = next_character(text);
    ASSERT_TRUE(character.valid && character.bytes == text.size()) << unsigned(c);
    ASSERT_EQ(code_point(text), c);
    ASSERT_EQ(character_bytes(text[0]), text.size());
  }
}

TEST(Utf8, FindsTheFirstByteThatIsNotAscii) {
  for (size_t ascii = 0; ascii < 20; ++ascii) {
    const std::string text(ascii, 'a');
    EXPECT_EQ(ascii_prefix(text), ascii);
    EXPECT_EQ(ascii_prefix(text + "\u00e9" + "aaaaaaaaa"), ascii);
  }
}

}  // namespace
}  // namespace ng
