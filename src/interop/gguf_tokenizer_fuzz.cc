// A GGUF file whatever its keys say is refused by ng::Error, or has a model's sizes and a tokenizer
// that encodes.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "interop/gguf_tokenizer.h"
#include "io/gguf_model.h"

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
  static const int descriptor = ::memfd_create("gguf_tokenizer_fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (descriptor < 0 || ::ftruncate(descriptor, 0) < 0) return 0;
  if (::pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    const ng::io::Gguf file(path);
    read_config(file);
    encode(file);
  } catch (const ng::Error&) {
    return 0;
  }
  return 0;
}
