// Characters of UTF-8 text that may be ill-formed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ng {

[[nodiscard]] inline uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

/// The next character of a text: how many bytes, and whether they are one. Of an ill-formed part
/// the bytes are the longest prefix of a valid sequence, or one: what Python's errors="replace"
/// makes one U+FFFD of.
struct Utf8Character {
  size_t bytes = 1;
  bool valid = false;
  bool unfinished = false;  ///< valid so far, the text ends in it
};

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Of a text that is not empty.
[[nodiscard]] Utf8Character next_character(std::string_view text);

/// Bytes before the first that is not ASCII.
[[nodiscard]] size_t ascii_prefix(std::string_view text);

/// The code point of a valid character.
[[nodiscard]] inline char32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(uint8_t(character[i])); };
  switch (character.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 31) << 6 | (byte(1) & 63);
    case 3:
      return (byte(0) & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
    default:
      return (byte(0) & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63);
  }
}

/// Bytes of the character that begins with this byte, in valid text.
[[nodiscard]] inline size_t character_bytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

[[nodiscard]] std::string utf8_of(char32_t code_point);

}  // namespace ng
