// A file that begins as one of token ids is refused by ng::Error, or its ids lie inside of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/token_file.h"

namespace {

void parse(std::string_view begin, uint64_t size, bool bare_uint16) {
  try {
    const ng::TokenFileLayout layout = ng::parse_token_layout(begin, size, bare_uint16, "fuzz.bin");
    const auto tokens = static_cast<uint64_t>(layout.tokens);
    const uint64_t ids = layout.first + tokens * static_cast<uint64_t>(layout.width);
    if (layout.tokens < 0 || tokens > size || ids > size) std::abort();
    if (layout.mask && (*layout.mask != ids || ids + (tokens + 7) / 8 != size)) std::abort();
  } catch (const ng::Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view begin(reinterpret_cast<const char*>(data), size);
  for (const bool bare : {false, true}) {
    parse(begin, size, bare);
    for (const uint64_t longer : {uint64_t{1} << 12, UINT64_MAX}) parse(begin, longer, bare);
  }
  return 0;
}
