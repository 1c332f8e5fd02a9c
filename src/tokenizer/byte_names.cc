#include "tokenizer/byte_names.h"

#include "base/utf8.h"

namespace ng {
namespace {

std::array<std::string, 256> make_names() {
  std::array<std::string, 256> names;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    names[static_cast<size_t>(byte)] = utf8_of(visible ? static_cast<char32_t>(byte) : next++);
  }
  return names;
}

}  // namespace

const std::array<std::string, 256>& byte_names() {
  static const std::array<std::string, 256> kNames = make_names();
  return kNames;
}

}  // namespace ng
