// 4 x 24 tile: 12 accumulators, 3 vectors of b and one broadcast of a value of a.
#include <immintrin.h>

#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {
namespace {

constexpr int kRows = 4;
constexpr int kVectors = 3;
constexpr int kWidth = 8;
constexpr int kCols = kVectors * kWidth;

// The broadcast is written in assembly: GCC 12 would fold it into each of the 3 FMAs that use it,
// and 3 loads of the same value instead of one make the loop wait for the load ports.
[[gnu::always_inline, gnu::target("avx2,fma")]] inline void accumulate(
    int64_t k, const float* a, const float* b, __m256 (&acc)[kRows][kVectors]) {
  for (; k > 0; --k, a += kRows, b += kCols) {
    _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
    __m256 right[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) right[j] = _mm256_loadu_ps(b + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      __m256 left;
      __asm__("vbroadcastss %1, %0" : "=x"(left) : "m"(a[i]));
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm256_fmadd_ps(left, right[j], acc[i][j]);
    }
  }
}

}  // namespace

[[gnu::target("avx2,fma")]] void chain_avx2(int64_t k, const float* a, const float* b, TileIn from,
                                            TileOut to) {
  __m256 acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j)
      acc[i][j] = from.data != nullptr ? _mm256_loadu_ps(from.data + i * from.stride + j * kWidth)
                                       : _mm256_setzero_ps();
  accumulate(k, a, b, acc);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j)
      _mm256_storeu_ps(to.data + i * to.stride + j * kWidth, acc[i][j]);
}

[[gnu::target("avx2,fma")]] void scaled_avx2(int64_t k, const float* a, const float* b,
                                             const SegmentScales& scales, float* tile) {
  __m256 acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm256_setzero_ps();
  accumulate(k, a, b, acc);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const __m256 left = _mm256_set1_ps(scales.left[i]);
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      float* to = tile + i * kCols + j * kWidth;
      const __m256 scale = _mm256_mul_ps(left, _mm256_loadu_ps(scales.right + j * kWidth));
      const __m256 product = _mm256_mul_ps(acc[i][j], scale);
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), product));
    }
  }
}

}  // namespace ng::cpu
