#include "data/text_likeness.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

ByteCounts counts_of(const std::string& text) {
  const std::vector<int32_t> ids = ByteTokenizer().encode(text);
  ByteCounts counts{};
  add_bytes_of(ids, ByteTokenizer(), &counts);
  return counts;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// A and B equally often take 1 bit each; where A is three times as frequent -log2(3/4) and 2.
TEST(TextLikeness, IsTheDivergenceOfFrequencies) {
  const ByteCounts even = counts_of(repeated("AB", 8192)),
                   uneven = counts_of(repeated("AAAB", 65536));
  EXPECT_NEAR(likeness(even, even)->own_bits, 1, 1e-12);
  EXPECT_NEAR(likeness(even, even)->bits_by_others, 1, 0.02) << "half a byte more of each";
  EXPECT_FALSE(likeness(even, even)->is_unlike());
  const TextLikeness other = *likeness(even, uneven);
  EXPECT_NEAR(other.bits_by_others, (2 - std::log2(0.75)) / 2, 0.002);
  EXPECT_EQ(other.bytes, 16384);
  EXPECT_FALSE(other.is_unlike()) << "0.21 bits";
  EXPECT_TRUE(likeness(counts_of(repeated("0.25\t", 1000)), even)->is_unlike());
  EXPECT_NE(warning_of(other).find("takes 1.21 bits, by those of its own 1.00"), std::string::npos)
      << warning_of(other);
}

TEST(TextLikeness, OfLittleTextSaysNothing) {
  const ByteCounts train = counts_of(repeated("AB", 8192));
  EXPECT_FALSE(likeness(counts_of(std::string(4095, 'C')), train)->is_unlike());
  EXPECT_TRUE(likeness(counts_of(std::string(4096, 'C')), train)->is_unlike());
  EXPECT_FALSE(likeness(ByteCounts{}, train).has_value());
  EXPECT_FALSE(likeness(train, ByteCounts{}).has_value());
}

}  // namespace
}  // namespace ng
