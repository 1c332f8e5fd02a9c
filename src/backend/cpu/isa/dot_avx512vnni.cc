// 8 x 48 tile: 24 integer accumulators, 3 vectors of b and one broadcast of four values of a.
#include <immintrin.h>

#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {
namespace {

constexpr int kRows = 8;
constexpr int kVectors = 3;
constexpr int kWidth = 16;
constexpr int kCols = kVectors * kWidth;

// In assembly because GCC 12 copies accumulators around the intrinsic and then spills them, which
// halves the speed.
[[gnu::always_inline, gnu::target("avx512f")]] inline void add_dots(__m512i& acc, __m512i right,
                                                                    __m512i left) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(right), "v"(left));
}

// The sums of segment `s` of a run.
[[gnu::always_inline, gnu::target("avx512f")]] inline void sum_segment(
    const DotRun& run, int64_t s, __m512i (&acc)[kRows][kVectors]) {
  const int32_t* starts = run.starts + s * run.stride * kRows;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm512_set1_epi32(starts[i]);
  const uint32_t* a = run.a + s * run.words * kRows;
  const uint32_t* b = run.b + s * run.words * kCols;
  for (int64_t w = 0; w < run.words; ++w, a += kRows, b += kCols) {
    _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
    __m512i right[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j)
      right[j] = _mm512_loadu_si512(reinterpret_cast<const __m512i*>(b + j * kWidth));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      __m512i left;
      __asm__("vpbroadcastd %1, %0" : "=v"(left) : "m"(a[i]));
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) add_dots(acc[i][j], right[j], left);
    }
  }
}

}  // namespace

[[gnu::target("avx512f")]] void dot_scaled_avx512vnni(const DotRun& run, float* tile) {
  for (int64_t s = 0; s < run.segments; ++s) {
    __m512i acc[kRows][kVectors];
    sum_segment(run, s, acc);
    const float* left = run.scales.left + s * run.stride * kRows;
    const float* right = run.scales.right + s * run.stride * kCols;
    __m512 scales[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) scales[j] = _mm512_loadu_ps(right + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const __m512 row_scale = _mm512_set1_ps(left[i]);
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) {
        float* to = tile + i * kCols + j * kWidth;
        const __m512 product = _mm512_mul_ps(row_scale, scales[j]);
        const __m512 sum = _mm512_maskz_cvtepi32_ps(0xFFFF, acc[i][j]);
        _mm512_storeu_ps(to, _mm512_fmadd_ps(sum, product, _mm512_loadu_ps(to)));
      }
    }
  }
}

[[gnu::target("avx512f")]] void dot_avx512vnni(const DotRun& run, int32_t* sums) {
  for (int64_t s = 0; s < run.segments; ++s) {
    __m512i acc[kRows][kVectors];
    sum_segment(run, s, acc);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) {
        auto* to = reinterpret_cast<__m512i*>(sums + i * kCols + j * kWidth);
        _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_loadu_si512(to), acc[i][j]));
      }
  }
}

}  // namespace ng::cpu
