// The integer kernels of one instruction set. Include in one source file per set, inside namespace
// ng::cpu, an unnamed one and HWY_PUSH_ATTRIBUTES; `Simd` has the set's vectors and instructions.
// A tile of kRows is computed kPart rows at a time: kPart · 3 sums, 3 vectors of b and a broadcast
// of four values of a fit the registers, on AVX-512 with kPart · 3 results beside them.
#pragma once

#define NG_INLINE_LAMBDA __attribute__((always_inline))

// body(0), body(1), ... of constants: GCC 12 leaves arrays in memory whose index is a variable.
template <int kCount, class Body>
HWY_INLINE void for_each_index(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) NG_INLINE_LAMBDA {
    (body(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

template <class Simd>
struct Dots {
  using Int = typename Simd::Int;
  using Float = typename Simd::Float;
  static constexpr int kRows = Simd::kRows;
  static constexpr int kPart = Simd::kPart;
  static constexpr int kVectors = 3;
  static constexpr int kWidth = Simd::kWidth;
  static constexpr int kCols = kVectors * kWidth;
  // Words along K that all parts take before the next ones: b's stay in the L1 cache meanwhile.
  static constexpr int64_t kStay = 24576 / (kCols * sizeof(uint32_t));

  static constexpr int32_t kBitsOfOne = 0x3F800000;

  Int sums[kPart * kVectors];

  // The sums of segment `s`, rows from `first` on.
  HWY_INLINE void sum(const DotRun& run, int64_t words, int64_t s, int first) {
    const int32_t* starts = run.starts + s * run.stride * kRows + first;
    for_each_index<kPart * kVectors>([&](auto i) NG_INLINE_LAMBDA {
      if constexpr (Simd::kBiased)
        sums[i] = Simd::broadcast(starts + i / kVectors);
      else
        sums[i] = Int{};
    });
    const uint32_t* a = run.a + s * words * kRows + first;
    const uint32_t* b = run.b + s * words * kCols;
    for (int64_t w = 0; w < words; ++w, a += kRows, b += kCols) {
      if (first == 0) _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
      const typename Simd::Right right[kVectors] = {
          Simd::load_right(b), Simd::load_right(b + kWidth), Simd::load_right(b + 2 * kWidth)};
      for_each_index<kPart>([&](auto i) NG_INLINE_LAMBDA {
        const Int left = Simd::broadcast(reinterpret_cast<const int32_t*>(a) + i);
        for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
          Simd::add_dots(sums[i * kVectors + j], right[j], left);
        });
      });
    }
  }

  // Scales of columns as product_of_scales() wants them.
  template <bool kPowers>
  static HWY_INLINE Float load_scales(const float* from) {
    return kPowers ? Simd::subtract_bits(Simd::load(from), kBitsOfOne) : Simd::load(from);
  }
  // Powers of two add their exponents: products and sums keep the units that multiply busy,
  // integers have others.
  template <bool kPowers>
  static HWY_INLINE Float product_of_scales(Float row, Float column) {
    return kPowers ? Simd::add_bits(row, column) : Simd::multiply(row, column);
  }

  // Segments [s, end), rows from `first` on. `words` is run.words: a constant where the compiler
  // shall unroll.
  template <bool kPowers>
  static HWY_INLINE void add_scaled(const DotRun& run, int64_t words, int64_t s, int64_t end,
                                    int first, TileIn from, TileOut to, float factor) {
    Float acc[kPart * kVectors];
    if (from.data != nullptr)
      for_each_index<kPart * kVectors>([&](auto i) NG_INLINE_LAMBDA {
        acc[i] =
            Simd::load(from.data + (first + i / kVectors) * from.stride + i % kVectors * kWidth);
      });
    else
      for_each_index<kPart * kVectors>([&](auto i) NG_INLINE_LAMBDA { acc[i] = Float{}; });
    for (; s < end; ++s) {
      Dots dots;
      dots.sum(run, words, s, first);
      const float* left = run.scales.left + s * run.stride * kRows + first;
      const float* right = run.scales.right + s * run.stride * kCols;
      const Float scales[kVectors] = {load_scales<kPowers>(right),
                                      load_scales<kPowers>(right + kWidth),
                                      load_scales<kPowers>(right + 2 * kWidth)};
      for_each_index<kPart>([&](auto i) NG_INLINE_LAMBDA {
        const Float row_scale = Simd::broadcast(left + i);
        for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
          constexpr int at = i * kVectors + j;
          acc[at] = Simd::fma(Simd::to_float(dots.sums[at]),
                              product_of_scales<kPowers>(row_scale, scales[j]), acc[at]);
        });
      });
    }
    for_each_index<kPart * kVectors>([&](auto i) NG_INLINE_LAMBDA {
      Simd::store(Simd::multiply(acc[i], Simd::broadcast(&factor)),
                  to.data + (first + i / kVectors) * to.stride + i % kVectors * kWidth);
    });
  }

  template <bool kPowers>
  static HWY_INLINE void add_scaled(const DotRun& run, int64_t words, TileIn from, TileOut to) {
    const int64_t step = kPart == kRows ? run.segments : std::max<int64_t>(kStay / words, 1);
    for (int64_t s = 0; s < run.segments; s += step) {
      const int64_t end = std::min(s + step, run.segments);
      const float factor = end == run.segments ? run.factor : 1.0f;
      for (int first = 0; first < kRows; first += kPart)
        add_scaled<kPowers>(run, words, s, end, first, from, to, factor);
      from = {to.data, to.stride};
    }
  }

  static HWY_INLINE void add_scaled(const DotRun& run, TileIn from, TileOut to) {
    const bool powers = run.scales.left_power_of_two && run.scales.right_power_of_two;
    if (powers && run.words == 8) return add_scaled<true>(run, 8, from, to);  // blocks of 32
    if (powers) return add_scaled<true>(run, run.words, from, to);
    if (run.words == 4) return add_scaled<false>(run, 4, from, to);  // blocks of 16
    add_scaled<false>(run, run.words, from, to);
  }

  static HWY_INLINE void add(const DotRun& run, int32_t* to) {
    for (int64_t s = 0; s < run.segments; ++s)
      for (int first = 0; first < kRows; first += kPart) {
        Dots dots;
        dots.sum(run, run.words, s, first);
        auto* part = reinterpret_cast<uint32_t*>(to) + first * kCols;
        for_each_index<kPart * kVectors>([&](auto i) NG_INLINE_LAMBDA {
          Simd::store(Simd::add(Simd::load(part + i * kWidth), dots.sums[i]), part + i * kWidth);
        });
      }
  }
};

#undef NG_INLINE_LAMBDA
