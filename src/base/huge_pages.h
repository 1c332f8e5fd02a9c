// Large memory in pages of 2 MiB: taking the first byte of each of 32,768 small pages takes longer
// than casting the values that go there.
#pragma once

#include <cstddef>

namespace ng {

/// A wish, before the memory is first written: without huge pages it only runs slower. Nothing for
/// less than 4 MiB.
void prefer_huge_pages(void* memory, size_t bytes);

}  // namespace ng
