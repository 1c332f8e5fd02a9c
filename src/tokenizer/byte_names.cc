#include "tokenizer/byte_names.h"

namespace ng {
namespace {

/// UTF-8 of a code point below U+0800.
std::string utf8(int code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 63))};
}

std::array<std::string, 256> make_names() {
  std::array<std::string, 256> names;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    names[static_cast<size_t>(byte)] = utf8(visible ? byte : next++);
  }
  return names;
}

}  // namespace

const std::array<std::string, 256>& byte_names() {
  static const std::array<std::string, 256> kNames = make_names();
  return kNames;
}

}  // namespace ng
