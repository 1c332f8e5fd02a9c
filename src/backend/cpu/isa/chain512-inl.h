// The chain kernels of an instruction set with vectors of 512 bits: an 8 x 48 tile has 24
// accumulators, 3 vectors of b and one broadcast of an element of a. Include in one source file per
// set, inside namespace ng::cpu, an unnamed one and HWY_PUSH_ATTRIBUTES.
#pragma once

constexpr int kRows = 8;
constexpr int kVectors = 3;
constexpr int kWidth = 16;
constexpr int kCols = kVectors * kWidth;

using Accumulators = __m512[kRows][kVectors];

// acc = Step::add(a_k, b_k, acc) over the k elements of both panels.
// The broadcast is written in assembly: GCC 12 would fold it into each of the 3 FMAs that use it,
// and 3 loads of the same value instead of one make the loop wait for the load ports.
template <class Step>
HWY_INLINE void accumulate(int64_t k, const float* a, const float* b, Accumulators& acc) {
  for (; k > 0; --k, a += kRows, b += kCols) {
    _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
    __m512 right[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) right[j] = _mm512_loadu_ps(b + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      __m512 left;
      __asm__("vbroadcastss %1, %0" : "=v"(left) : "m"(a[i]));
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) Step::add(left, right[j], acc[i][j]);
    }
  }
}

template <class Step>
HWY_INLINE void chain(int64_t k, const float* a, const float* b, TileIn from, TileOut to) {
  Accumulators acc;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j)
      acc[i][j] = from.data != nullptr ? _mm512_loadu_ps(from.data + i * from.stride + j * kWidth)
                                       : _mm512_setzero_ps();
  accumulate<Step>(k, a, b, acc);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j)
      _mm512_storeu_ps(to.data + i * to.stride + j * kWidth, acc[i][j]);
}

template <class Step>
HWY_INLINE void add_scaled(int64_t k, const float* a, const float* b, const SegmentScales& scales,
                           float* tile) {
  Accumulators acc;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm512_setzero_ps();
  accumulate<Step>(k, a, b, acc);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const __m512 left = _mm512_set1_ps(scales.left[i]);
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      float* to = tile + i * kCols + j * kWidth;
      const __m512 scale = _mm512_mul_ps(left, _mm512_loadu_ps(scales.right + j * kWidth));
      const __m512 product = _mm512_mul_ps(acc[i][j], scale);
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), product));
    }
  }
}
