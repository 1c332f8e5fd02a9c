// A GGUF file whatever its keys say is refused by ng::Error, or has a model's sizes and a tokenizer
// that encodes.
#include <string>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/gguf/model.h"
#include "io/gguf/tokenizer.h"

namespace {

void read_config(const ng::io::Gguf& file) {
  try {
    (void)ng::io::read_gguf_config(file);
  } catch (const ng::Error&) {
    return;
  }
}

void encode(const ng::io::Gguf& file) {
  constexpr std::string_view kText = "The  quick\n\xC3\xA9 brown <s> 1895 \xE2\x96\x81x";
  const auto tokenizer = ng::open_gguf_tokenizer(file);
  (void)tokenizer->decode_text(tokenizer->encode(kText));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ng::read_as_file(data, size, [](const std::string& path) {
    const ng::io::Gguf file(path);
    read_config(file);
    encode(file);
  });
  return 0;
}
