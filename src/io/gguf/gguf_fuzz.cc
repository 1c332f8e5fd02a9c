// A GGUF file of any content is refused by ng::Error or read whole, never anything else; so are two
// files that say that they are one model: an input with a second header in it.
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
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

void read_parts(std::string_view input) {
  const size_t second = input.find("GGUF", 1);
  if (second == std::string_view::npos) return;
  static const std::string name = "/tmp/gguf_fuzz-" + std::to_string(::getpid());
  const std::string paths[] = {name + "-00001-of-00002.gguf", name + "-00002-of-00002.gguf"};
  std::ofstream(paths[0]) << input.substr(0, second);
  std::ofstream(paths[1]) << input.substr(second);
  for (const std::string& path : paths) {
    try {
      read_all(path);
    } catch (const ng::Error&) {
      continue;
    }
  }
  for (const std::string& path : paths) (void)::unlink(path.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ng::read_as_file(data, size, read_all);
  read_parts({reinterpret_cast<const char*>(data), size});
  return 0;
}
