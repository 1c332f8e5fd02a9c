// SumOrder::tile32 on vectors of FP32. Include where tile-inl.h is included, after it.
#pragma once

// The sums of 32 products each, rows from `first` on, added to `to`; -0 becomes +0.
template <class Simd, int kPart>
HWY_INLINE void add_tile_step(const float* a, const float* b, int first, TileOut to) {
  using Float = typename Simd::Float;
  constexpr int kRows = Simd::kRows, kCols = kVectors * Simd::kWidth;
  Part<typename Simd::Floats, kPart> even{}, odd{};
  for (int k = 0; k < 32; k += 2) {
    add_element<Simd>(a + k * kRows + first, b + k * kCols, even);
    add_element<Simd>(a + (k + 1) * kRows + first, b + (k + 1) * kCols, odd);
  }
  even.for_each([&](Float sum, auto i, auto j) __attribute__((always_inline)) {
    float* at = to.data + (first + i) * to.stride + j * Simd::kWidth;
    Simd::store(Simd::load(at) + (sum + odd.at[i * kVectors + j]) + Float{}, at);
  });
}

// Within its caller's FlushModes.
template <class Simd, int kPart>
[[gnu::noinline]] void add_tile_steps(int64_t count, const float* a, const float* b, TileOut to) {
  constexpr int kRows = Simd::kRows, kCols = kVectors * Simd::kWidth;
  for (; count > 0; count -= 32, a += 32 * kRows, b += 32 * kCols)
    for (int first = 0; first < kRows; first += kPart) add_tile_step<Simd, kPart>(a, b, first, to);
}

// kPart rows at a time, of which two sums are in registers. [Tile32Kernel]
template <class Simd, int kPart>
HWY_INLINE void tile32(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Simd>(0, a, b, from, to);
  const FlushModes flush;
  add_tile_steps<Simd, kPart>(count, a, b, to);
}
