// Memory of the cpu backend: contracts of Backend::allocate and release.
#pragma once

#include <cstddef>

namespace ng::cpu {

std::byte* allocate(size_t bytes);
void release(std::byte* memory, size_t bytes);

}  // namespace ng::cpu
