// Runs a fuzz target over every file of the folders (or files) it is given, where no fuzzing engine
// is linked. Whatever the target does with a bad input, it must not crash or throw.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"
#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMaxInputBytes = 64 << 20;

int replay(const std::string& path) {
  if (ng::is_folder(path)) {
    int inputs = 0;
    for (const std::string& name : ng::list_folder(path)) inputs += replay(path + "/" + name);
    return inputs;
  }
  const std::string input = ng::read_file(path, kMaxInputBytes);
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);  // the last line before a crash names the input
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int inputs = 0;
    for (int i = 1; i < argc; ++i) inputs += replay(argv[i]);
    std::printf("%d inputs replayed\n", inputs);
    if (inputs > 0) return 0;
    std::fprintf(stderr, "no input: give folders or files\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
