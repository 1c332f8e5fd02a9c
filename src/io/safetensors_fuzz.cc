// A safetensors file of any content is refused by ng::Error or read whole, never anything else.
#include <string>
#include <vector>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/hf/coded_file.h"
#include "io/safetensors.h"

namespace {

/// Reads every byte that the file claims to have.
void read_all(const std::string& path) {
  const ng::io::Safetensors file(path);
  unsigned sum = 0;
  for (const ng::io::SafetensorsEntry& entry : file.entries()) {
    std::vector<std::byte> bytes(entry.bytes);
    entry.read(0, bytes);
    for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
    try {
      sum += static_cast<unsigned>(ng::io::to_floats(entry).size());
      sum += static_cast<unsigned>(ng::io::to_integers(entry).size());
    } catch (const ng::Error&) {
      continue;  // a dtype that has no such values
    }
  }
  const ng::io::Safetensors decoded = ng::io::open_decoded(path);
  for (const ng::io::SafetensorsEntry& entry : decoded.entries()) {
    try {
      sum += static_cast<unsigned>(ng::io::to_floats(entry).size());
    } catch (const ng::Error&) {
      continue;  // codes whose scales are missing or damaged
    }
  }
  volatile unsigned sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ng::read_as_file(data, size, read_all);
  return 0;
}
