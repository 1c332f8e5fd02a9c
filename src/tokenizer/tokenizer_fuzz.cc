// A tokenizer.json of any content is refused by ng::Error, or its tokenizer encodes any text so
// that places lie in the text and ids can be decoded. What is behind the first NUL is the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/subword_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t border = std::min(input.find('\0'), size);
  const std::string_view text = border == size ? input : input.substr(border + 1);
  ng::Json json;
  try {
    json = ng::parse_json(input.substr(0, border), "tokenizer.json");
    ng::require_byte_tokenizer(json, "tokenizer.json");
    return 0;
  } catch (const ng::Error&) {
  }
  try {
    ng::TokenizerFiles files;
    files.json_place = "tokenizer.json";
    const ng::SubwordTokenizer tokenizer(json, files);
    const ng::PlacedTokens placed = tokenizer.encode_with_starts(text);
    NG_CHECK(placed.ids == tokenizer.encode(text));
    std::vector<int32_t> of_parts;
    for (const std::string_view part : tokenizer.separate_parts(text, 1)) {
      const std::vector<int32_t> more = tokenizer.encode(part);
      of_parts.insert(of_parts.end(), more.begin(), more.end());
    }
    NG_CHECK(of_parts == placed.ids);
    for (int64_t start : placed.starts)
      NG_CHECK(start >= 0 && start <= static_cast<int64_t>(text.size()), start);
    (void)tokenizer.decode_text(placed.ids);
  } catch (const ng::Error&) {
  }
  return 0;
}
