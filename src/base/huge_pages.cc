#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace ng {

void prefer_huge_pages(void* memory, size_t bytes) {
  constexpr size_t kLeast = size_t{4} << 20;
  constexpr uintptr_t kPage = 4096;
  if (bytes < kLeast) return;
  const auto first = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (first + kPage - 1) / kPage * kPage;
  const uintptr_t end = (first + bytes) / kPage * kPage;
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace ng
