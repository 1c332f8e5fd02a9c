#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace ng {
namespace {

std::string of(const std::string& text) { return checksum_of(std::as_bytes(std::span(text))); }

// The values that the python package xxhash (3.x) gives.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(of("NarrowGauge"), "b34494d550940cd1e94c6607e65a853c");
}

TEST(Checksum, SeesEveryBitAndNoPieces) {
  std::string text(1000, 'x');
  const std::string whole = of(text);
  Checksum pieces;
  for (size_t i = 0; i < text.size(); i += 7) {
    pieces.add(std::as_bytes(std::span(text).subspan(i, std::min<size_t>(7, text.size() - i))));
  }
  EXPECT_EQ(pieces.hex(), whole);
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] ^= 1;
    EXPECT_NE(of(text), whole) << i;
    text[i] ^= 1;
  }
}

}  // namespace
}  // namespace ng
