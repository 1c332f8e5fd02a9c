// A GGUF file of any content is refused by ng::Error or read whole, never anything else.
#include <string>
#include <vector>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/gguf/gguf.h"

namespace {

/// Reads every key and every value that the file claims to have.
void read_all(const std::string& path) {
  const ng::io::Gguf file(path);
  size_t sum = 0;
  for (const auto& [key, value] : file.keys()) {
    try {
      sum += file.integers(key).size() + static_cast<size_t>(file.integer(key, 0, 9));
    } catch (const ng::Error&) {
      continue;  // no integers
    }
  }
  for (const ng::io::SafetensorsEntry& entry : file.entries()) sum += to_floats(entry).size();
  volatile size_t sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ng::read_as_file(data, size, read_all);
  return 0;
}
