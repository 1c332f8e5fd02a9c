// The kernels of one instruction set. Include in one source file per set, inside namespace ng::cpu,
// an unnamed one and HWY_PUSH_ATTRIBUTES, after the set's vectors (vectors*-inl.h). `Simd` is those
// with how they multiply elements of panels and add them to sums, and the size of a tile: kRows x 3
// vectors.
// A tile is computed in parts of some rows: as many sums, 3 vectors of b and a broadcast of an
// element of a fit the registers. Chains have kChainRows rows in a part; scaled sums kPart, fewer
// where those suffice to keep the units busy and their results fit beside them.
#pragma once

#include "backend/cpu/gemm/isa/elements-inl.h"

#define NG_INLINE_LAMBDA __attribute__((always_inline))

// body(0), body(1), ... of constants: GCC 12 leaves arrays in memory whose index is a variable.
template <int kCount, class Body>
HWY_INLINE void for_each_index(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) NG_INLINE_LAMBDA {
    (body(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

constexpr int kVectors = 3;

// kPart rows of a tile in registers.
template <class Of, int kPart>
struct Part {
  using Vector = typename Of::Vector;
  static constexpr int kCount = kPart * kVectors;

  Vector at[kCount];

  // set(vector, row, column of vectors) for all of them.
  template <class Set>
  HWY_INLINE void for_each(const Set& set) {
    for_each_index<kCount>([&](auto i) NG_INLINE_LAMBDA {
      set(at[i], std::integral_constant<int, i / kVectors>(),
          std::integral_constant<int, i % kVectors>());
    });
  }
};

// Rows from `first` on of a tile; null: +0.
template <class Simd, int kPart>
HWY_INLINE void load_part(TileIn from, int first, Part<typename Simd::Floats, kPart>& part) {
  using Float = typename Simd::Float;
  part.for_each([&](Float& at, auto i, auto j) NG_INLINE_LAMBDA {
    at = from.data != nullptr ? Simd::load(from.data + (first + i) * from.stride + j * Simd::kWidth)
                              : Float{};
  });
}

// Adds the products of one element along K.
template <class Simd, int kPart>
HWY_INLINE void add_element(const float* a, const float* b,
                            Part<typename Simd::Sums, kPart>& sums) {
  constexpr int kWidth = Simd::kWidth;
  const decltype(Simd::load_right(b)) right[kVectors] = {
      Simd::load_right(b), Simd::load_right(b + kWidth), Simd::load_right(b + 2 * kWidth)};
  for_each_index<kPart>([&](auto i) NG_INLINE_LAMBDA {
    const auto left = Simd::broadcast_left(a + i);
    for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
      Simd::add_products(sums.at[i * kVectors + j], right[j], left);
    });
  });
}

// Adds the products of `count` elements along K. Where prefetches fetch a, those of a tile's first
// part do.
template <class Simd, int kPart>
HWY_INLINE void accumulate(int64_t count, const float* a, const float* b, bool is_first,
                           Part<typename Simd::Sums, kPart>& sums) {
  const auto add = [&]() NG_INLINE_LAMBDA {
    if (Simd::kFetches && is_first)
      _mm_prefetch(reinterpret_cast<const char*>(a + kPanelAhead), _MM_HINT_T0);
    add_element<Simd>(a, b, sums);
    a += Simd::kRows;
    b += kVectors * Simd::kWidth;
  };
  if constexpr (Simd::kUnrolls) {
    HWY_UNROLL(8)
    for (; count > 0; --count) add();
  } else {
    for (; count > 0; --count) add();
  }
}

// Elements along K that all parts of a tile take before the next ones: b's stay in the L1 cache
// meanwhile.
template <class Simd>
constexpr int64_t kStay = 24576 / (kVectors * Simd::kWidth * sizeof(float));

// to = the chain from `from`. [ChainKernel]
template <class Simd>
HWY_INLINE void chain(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  constexpr int kRows = Simd::kRows, kPart = Simd::kChainRows;
  const int64_t step = kPart == kRows ? count : kStay<Simd>;
  do {
    const int64_t now = std::min(step, count);
    for (int first = 0; first < kRows; first += kPart) {
      Part<typename Simd::Floats, kPart> sums;
      load_part<Simd>(from, first, sums);
      accumulate<Simd>(now, a + first, b, first == 0, sums);
      sums.for_each([&](typename Simd::Float sum, auto i, auto j) NG_INLINE_LAMBDA {
        Simd::store(sum, to.data + (first + i) * to.stride + j * Simd::kWidth);
      });
    }
    a += now * kRows;
    b += now * kVectors * Simd::kWidth;
    count -= now;
    from = {to.data, to.stride};
  } while (count > 0);
}

// Bits of x · y for scales of four significant bits, 1.abc · 2^e as FP32: those of x and of y and
// what their significands carry.
struct ScaleCarries {
  static constexpr int kShift = 20;  // to abc, below the exponent
  static constexpr uint32_t kCount = 8;
  using OfRow = std::array<uint32_t, 2 * kCount>;  // twice: the exponent's last bit is above abc

  static constexpr std::array<OfRow, kCount> make() {
    const auto significand = [](uint32_t abc) { return 1 + static_cast<float>(abc) / kCount; };
    std::array<OfRow, kCount> carries{};
    for (uint32_t x = 0; x < kCount; ++x)
      for (uint32_t y = 0; y < 2 * kCount; ++y) {
        const float a = significand(x), b = significand(y % kCount);
        carries[x][y] = std::bit_cast<uint32_t>(a * b) - std::bit_cast<uint32_t>(a) -
                        std::bit_cast<uint32_t>(b);
      }
    return carries;
  }
  // [abc of y]
  static HWY_INLINE const uint32_t* of(float x) {
    static constexpr std::array<OfRow, kCount> kCarries = make();
    return kCarries[std::bit_cast<uint32_t>(x) >> kShift & (kCount - 1)].data();
  }
};

// Sums of segments. [ScaledKernel, DotKernel]
template <class Simd>
struct Segments {
  using SumVector = typename Simd::Sums::Vector;
  using Float = typename Simd::Float;
  static constexpr int kRows = Simd::kRows;
  static constexpr int kPart = Simd::kPart;
  using Sums = Part<typename Simd::Sums, kPart>;
  using Results = Part<typename Simd::Floats, kPart>;
  static constexpr int kWidth = Simd::kWidth;
  static constexpr int kCols = kVectors * kWidth;
  static constexpr int32_t kBitsOfOne = 0x3F800000;

  // Where sums begin: at run.starts[at + row] if the kernel takes b with its bias, else at 0.
  static HWY_INLINE void begin(const SegmentRun& run, int64_t at, Sums& sums) {
    sums.for_each([&](SumVector& to, auto i, auto) NG_INLINE_LAMBDA {
      if constexpr (Simd::kBiased)
        to = Simd::broadcast(run.starts + at + i);
      else
        to = SumVector{};
    });
  }

  // The sums of segment `s`, rows from `first` on.
  static HWY_INLINE void sum(const SegmentRun& run, int64_t count, int64_t s, int first,
                             Sums& sums) {
    if constexpr (Simd::kShort != 0) return sum_short(run, count, s, first, sums);
    begin(run, s * run.stride * kRows + first, sums);
    accumulate<Simd>(count, run.a + s * count * kRows + first, run.b + s * count * kCols,
                     first == 0, sums);
  }

  // The same from sums of kShort words in int16.
  static HWY_INLINE void sum_short(const SegmentRun& run, int64_t count, int64_t s, int first,
                                   Sums& sums) {
    constexpr int64_t kShort = Simd::kShort;
    sums = {};
    for (int64_t at = s * (count / kShort); at < (s + 1) * (count / kShort); ++at) {
      Sums pairs;
      begin(run, at * kRows + first, pairs);
      accumulate<Simd>(kShort, run.a + at * kShort * kRows + first, run.b + at * kShort * kCols,
                       first == 0, pairs);
      SumVector factors[kVectors];
      for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
        factors[j] = run.factors == nullptr ? Simd::ones()
                                            : Simd::load(run.factors + at * kCols + j * kWidth);
      });
      sums.for_each([&](SumVector& to, auto i, auto j) NG_INLINE_LAMBDA {
        to = Simd::add(to, Simd::widen(pairs.at[i * kVectors + j], factors[j]));
      });
    }
  }

  // How a scale of rows and one of columns become a product. Multiplying takes the units that sums
  // are made with: powers of two add their exponents instead, integers have other units, where the
  // columns of a vector share a scale, products are made ahead, one per row, and those of short
  // significands are looked up.
  // `rounded`: any, whose products with sums are rounded before they are added.
  enum class Scales : uint8_t { any, powers_of_two, shared, looked_up, rounded };

  // Scales of columns as product_of_scales() wants them.
  template <Scales kScales>
  static HWY_INLINE Float load_scales(const float* from) {
    if constexpr (kScales == Scales::powers_of_two)
      return Simd::subtract_bits(Simd::load(from), kBitsOfOne);
    else
      return Simd::load(from);
  }
  template <Scales kScales>
  static HWY_INLINE Float product_of_scales(Float row, Float column) {
    if constexpr (kScales == Scales::powers_of_two)
      return Simd::add_bits(row, column);
    else
      return Simd::multiply(row, column);
  }

  // Products of shared scales, [segment][vector][row], for as many segments as parts take at once.
  struct alignas(64) Products {
    static constexpr int64_t kCount = 4;  // elements of one: 16 of int8
    static constexpr int64_t kOfSegment = kVectors * kRows;
    using Rows [[gnu::vector_size(kRows * sizeof(float))]] = float;
    float at[kStay<Simd> / kCount * kOfSegment];

    HWY_INLINE void make(const SegmentRun& run, int64_t s, int64_t end) {
      for (float* to = at; s < end; ++s) {
        Rows rows;
        std::memcpy(&rows, run.scales.left + s * run.stride * kRows, sizeof rows);
        for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
          const Rows of_rows = rows * run.scales.right[s * run.stride * kCols + j * kWidth];
          std::memcpy(to + j * kRows, &of_rows, sizeof of_rows);
        });
        to += kOfSegment;
      }
    }
  };

  // acc += sums · scales of segment `s`, rows from `first` on.
  template <Scales kScales>
  static HWY_INLINE void add_product(const SegmentRun& run, int64_t s, int first, Sums& sums,
                                     Results& acc) {
    const float* left = run.scales.left + s * run.stride * kRows + first;
    const float* right = run.scales.right + s * run.stride * kCols;
    const Float scales[kVectors] = {load_scales<kScales>(right),
                                    load_scales<kScales>(right + kWidth),
                                    load_scales<kScales>(right + 2 * kWidth)};
    for_each_index<kPart>([&](auto i) NG_INLINE_LAMBDA {
      const Float row_scale = Simd::broadcast(left + i);
      for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
        constexpr int at = i * kVectors + j;
        const Float sum = Simd::to_float(sums.at[at]);
        const Float scale = product_of_scales<kScales>(row_scale, scales[j]);
        if constexpr (kScales == Scales::rounded)
          acc.at[at] = Simd::add(acc.at[at], Simd::multiply(sum, scale));
        else
          acc.at[at] = Simd::fma(sum, scale, acc.at[at]);
      });
    });
  }
  // The same by adding the bits of two scales and what their significands carry.
  static HWY_INLINE void add_looked_up(const SegmentRun& run, int64_t s, int first, Sums& sums,
                                       Results& acc) {
    const float* left = run.scales.left + s * run.stride * kRows + first;
    const float* right = run.scales.right + s * run.stride * kCols;
    SumVector scales[kVectors], significands[kVectors];
    for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
      scales[j] = Simd::bits(Simd::load(right + j * kWidth));
      significands[j] = Simd::shift_right(scales[j], ScaleCarries::kShift);
    });
    for_each_index<kPart>([&](auto i) NG_INLINE_LAMBDA {
      const SumVector carries =
          Simd::add(Simd::load(ScaleCarries::of(left[i])), Simd::bits(Simd::broadcast(left + i)));
      for_each_index<kVectors>([&](auto j) NG_INLINE_LAMBDA {
        constexpr int at = i * kVectors + j;
        const SumVector product = Simd::add(Simd::permute(carries, significands[j]), scales[j]);
        acc.at[at] = Simd::fma(Simd::to_float(sums.at[at]), Simd::float_of(product), acc.at[at]);
      });
    });
  }
  // The same by products made ahead, from that of the first row on.
  static HWY_INLINE void add_product(const float* ahead, Sums& sums, Results& acc) {
    __asm__("" : "+r"(ahead));  // one pointer: GCC 12 would keep one to every product
    acc.for_each([&](Float& at, auto i, auto j) NG_INLINE_LAMBDA {
      at = Simd::fma(Simd::to_float(sums.at[i * kVectors + j]),
                     Simd::broadcast(ahead + j * kRows + i), at);
    });
  }

  // Segments [s, end), rows from `first` on. `count` is run.count: a constant where the compiler
  // shall unroll. `products`: of these segments, read where columns share scales.
  template <Scales kScales>
  static HWY_INLINE void add_scaled(const SegmentRun& run, int64_t count, int64_t s, int64_t end,
                                    int first, const Products& products, TileIn from, TileOut to,
                                    float factor) {
    Results acc;
    load_part<Simd>(from, first, acc);
    for (const float* ahead = products.at + first; s < end; ++s, ahead += Products::kOfSegment) {
      Sums sums;
      sum(run, count, s, first, sums);
      if constexpr (kScales == Scales::shared)
        add_product(ahead, sums, acc);
      else if constexpr (kScales == Scales::looked_up)
        add_looked_up(run, s, first, sums, acc);
      else
        add_product<kScales>(run, s, first, sums, acc);
    }
    if (factor != 1.0f) {  // multiplying takes the units that make sums
      const Float by = Simd::broadcast(&factor);
      acc.for_each([&](Float& at, auto, auto) NG_INLINE_LAMBDA { at = Simd::multiply(at, by); });
    }
    acc.for_each([&](Float at, auto i, auto j) NG_INLINE_LAMBDA {
      Simd::store(at, to.data + (first + i) * to.stride + j * kWidth);
    });
  }

  template <Scales kScales>
  static HWY_INLINE void add_scaled(const SegmentRun& run, int64_t count, TileIn from, TileOut to) {
    constexpr bool kAhead = kScales == Scales::shared;
    Products products;
    const int64_t step =
        kPart == kRows && !kAhead ? run.segments : std::max<int64_t>(kStay<Simd> / count, 1);
    for (int64_t s = 0; s < run.segments; s += step) {
      const int64_t end = std::min(s + step, run.segments);
      const float factor = end == run.segments ? run.factor : 1.0f;
      if (kAhead) products.make(run, s, end);
      for (int first = 0; first < kRows; first += kPart)
        add_scaled<kScales>(run, count, s, end, first, products, from, to, factor);
      from = {to.data, to.stride};
    }
  }

  // Without a loop along K where segments have kCount elements.
  template <Scales kScales, int64_t kCount>
  static HWY_INLINE void add_unrolled(const SegmentRun& run, TileIn from, TileOut to) {
    if (run.count == kCount) return add_scaled<kScales>(run, kCount, from, to);
    add_scaled<kScales>(run, run.count, from, to);
  }

  static HWY_INLINE void add_scaled(const SegmentRun& run, TileIn from, TileOut to) {
    const SegmentScales& scales = run.scales;
    if constexpr (std::is_same_v<typename Simd::Sums, typename Simd::Floats>) {
      if (run.rounds_products) return add_unrolled<Scales::rounded, 16>(run, from, to);
    }
    if (scales.left_power_of_two && scales.right_power_of_two)
      return add_unrolled<Scales::powers_of_two, 8>(run, from, to);  // 32 of int8
    // Short sums wait for instructions rather than for units; products ahead spare none.
    if constexpr (Simd::kShort == 0) {
      if (scales.right_shared && run.count == Products::kCount)
        return add_scaled<Scales::shared>(run, Products::kCount, from, to);
    }
    add_unrolled<Scales::any, 4>(run, from, to);  // 16 of int8
  }

  static HWY_INLINE void add_scaled_by_lookup(const SegmentRun& run, TileIn from, TileOut to) {
    add_unrolled<Scales::looked_up, 4>(run, from, to);
  }

  static HWY_INLINE void add(const SegmentRun& run, int32_t* to) {
    for (int64_t s = 0; s < run.segments; ++s)
      for (int first = 0; first < kRows; first += kPart) {
        Sums sums;
        sum(run, run.count, s, first, sums);
        auto* part = reinterpret_cast<uint32_t*>(to) + first * kCols;
        sums.for_each([&](SumVector at, auto i, auto j) NG_INLINE_LAMBDA {
          uint32_t* total = part + i * kCols + j * kWidth;
          Simd::store(Simd::add(Simd::load(total), at), total);
        });
      }
  }
};

// Short sums of run.words words. [ScaledKernel, DotKernel]
template <template <int64_t> class Short>
HWY_INLINE void add_short_scaled(const SegmentRun& run, TileIn from, TileOut to) {
  if (run.words == 8) return Segments<Short<8>>::add_scaled(run, from, to);
  Segments<Short<4>>::add_scaled(run, from, to);
}
template <template <int64_t> class Short>
HWY_INLINE void add_short(const SegmentRun& run, int32_t* sums) {
  if (run.words == 8) return Segments<Short<8>>::add(run, sums);
  Segments<Short<4>>::add(run, sums);
}

#undef NG_INLINE_LAMBDA
