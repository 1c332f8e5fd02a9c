// NG_HD marks inline element rules that g++, clang and nvcc compile for host and device alike.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define NG_HD __host__ __device__
#else
#define NG_HD
#endif

namespace ng {

/// Position of the highest set bit of u != 0.
NG_HD constexpr int high_bit(uint32_t u) {
#if defined(__CUDA_ARCH__)
  return 31 - __clz(static_cast<int>(u));
#else
  return 31 - __builtin_clz(u);
#endif
}

}  // namespace ng
