#include "base/utf8.h"

#include <cstring>

namespace ng {

// Table 3-7 of the Unicode standard; ill-formed: the longest prefix of a valid sequence.
Utf8Character next_character(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return {1, true, false};
  size_t length = 0;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0) return {};
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    const uint8_t next = byte_at(text, i);
    if (next < low || next > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

size_t ascii_prefix(std::string_view text) {
  size_t done = 0;
  for (uint64_t word = 0; done + sizeof word <= text.size(); done += sizeof word) {
    std::memcpy(&word, text.data() + done, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (done < text.size() && byte_at(text, done) < 0x80) ++done;
  return done;
}

std::string utf8_of(char32_t code_point) {
  const auto last = [&](int shift) { return static_cast<char>(0x80 | (code_point >> shift & 63)); };
  const auto first = [&](char32_t mark, int shift) {
    return static_cast<char>(mark | code_point >> shift);
  };
  if (code_point < 0x80) return {first(0, 0)};
  if (code_point < 0x800) return {first(0xC0, 6), last(0)};
  if (code_point < 0x10000) return {first(0xE0, 12), last(6), last(0)};
  return {first(0xF0, 18), last(12), last(6), last(0)};
}

}  // namespace ng
