#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace ng::cpu {
namespace {

// From here on pages come straight from the kernel, zeroed and in huge pages where it has them.
constexpr size_t kMapped = size_t{1} << 20;

[[noreturn]] void out_of_memory(size_t bytes) {
  throw Error({.place = "cpu",
               .key = "memory",
               .problem = fmt::format("{:.2f} GiB more cannot be had",
                                      static_cast<double>(bytes) / (size_t{1} << 30)),
               .remedy = "a smaller model or batch, fewer threads, or a machine with more memory"});
}

size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

std::byte* allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
  if (bytes >= kMapped) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) out_of_memory(bytes);
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without huge pages it only runs slower
    return static_cast<std::byte*>(memory);
  }
  const size_t size = whole_lines(bytes == 0 ? 1 : bytes);
  void* memory = std::aligned_alloc(64, size);
  if (memory == nullptr) out_of_memory(bytes);
  std::memset(memory, 0, size);
  return static_cast<std::byte*>(memory);
}

void release(std::byte* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (bytes >= kMapped)
    ::munmap(memory, bytes);
  else
    std::free(memory);
}

}  // namespace ng::cpu
