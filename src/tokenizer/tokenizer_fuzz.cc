// A tokenizer.json of any content is refused by ng::Error or encodes bytes as themselves.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    ng::require_byte_tokenizer(ng::parse_json(text, "tokenizer.json"), "tokenizer.json");
  } catch (const ng::Error&) {
    return 0;
  }
  return 0;
}
