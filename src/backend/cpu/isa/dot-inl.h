// The integer kernels of one instruction set. Include in one source file per set, inside namespace
// ng::cpu, an unnamed one and HWY_PUSH_ATTRIBUTES; `Simd` has the set's vectors and instructions:
// kRows · 3 accumulators, 3 vectors of b and one broadcast of four values of a fit its registers.
#pragma once

template <class Simd>
struct Dots {
  using Int = typename Simd::Int;
  using Float = typename Simd::Float;
  static constexpr int kRows = Simd::kRows;
  static constexpr int kVectors = 3;
  static constexpr int kWidth = Simd::kWidth;
  static constexpr int kCols = kVectors * kWidth;

  Int acc[kRows][kVectors];

  // The sums of segment `s`.
  HWY_INLINE void sum(const DotRun& run, int64_t words, int64_t s) {
    const int32_t* starts = run.starts + s * run.stride * kRows;
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) acc[i][j] = Simd::broadcast(starts + i);
    const uint32_t* a = run.a + s * words * kRows;
    const uint32_t* b = run.b + s * words * kCols;
    for (int64_t w = 0; w < words; ++w, a += kRows, b += kCols) {
      _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
      Int right[kVectors];
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) right[j] = Simd::load(b + j * kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Int left = Simd::broadcast(reinterpret_cast<const int32_t*>(a) + i);
#pragma GCC unroll 3
        for (int j = 0; j < kVectors; ++j) Simd::add_dots(acc[i][j], right[j], left);
      }
    }
  }

  // `words` is run.words: a constant where the compiler shall unroll.
  static HWY_INLINE void add_scaled(const DotRun& run, int64_t words, float* tile) {
    for (int64_t s = 0; s < run.segments; ++s) {
      // Else GCC keeps a second copy of the tile on the stack from one segment to the next.
      __asm__ volatile("" ::: "memory");
      Dots dots;
      dots.sum(run, words, s);
      const float* left = run.scales.left + s * run.stride * kRows;
      const float* right = run.scales.right + s * run.stride * kCols;
      Float scales[kVectors];
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) scales[j] = Simd::load(right + j * kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Float row_scale = Simd::broadcast(left + i);
#pragma GCC unroll 3
        for (int j = 0; j < kVectors; ++j) {
          float* to = tile + i * kCols + j * kWidth;
          const Float scale = Simd::multiply(row_scale, scales[j]);
          Simd::store(Simd::fma(Simd::to_float(dots.acc[i][j]), scale, Simd::load(to)), to);
        }
      }
    }
  }

  static HWY_INLINE void add(const DotRun& run, int32_t* sums) {
    for (int64_t s = 0; s < run.segments; ++s) {
      Dots dots;
      dots.sum(run, run.words, s);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
        for (int j = 0; j < kVectors; ++j) {
          auto* to = reinterpret_cast<uint32_t*>(sums) + i * kCols + j * kWidth;
          Simd::store(Simd::add(Simd::load(to), dots.acc[i][j]), to);
        }
    }
  }

  static HWY_INLINE void add_scaled(const DotRun& run, float* tile) {
    if (run.words == 4) return add_scaled(run, 4, tile);  // blocks of 16
    if (run.words == 8) return add_scaled(run, 8, tile);  // blocks of 32
    add_scaled(run, run.words, tile);
  }
};
