// A GGUF file of any content is refused by ng::Error or read whole, never anything else.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "io/gguf.h"

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
  static const int file = ::memfd_create("gguf_fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ::ftruncate(file, 0) < 0) return 0;
  if (::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    read_all(path);
  } catch (const ng::Error&) {
    return 0;
  }
  return 0;
}
