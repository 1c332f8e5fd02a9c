// What elements of panels are and how their products are added to sums, on the vectors of
// vectors*-inl.h. Included by tile-inl.h.
#pragma once

// What most elements have in common.
template <class Vectors>
struct Elements : Vectors {
  static constexpr bool kFetches = true;   // the left panel by prefetches; else hardware does
  static constexpr bool kUnrolls = false;  // loops along K
  static constexpr int64_t kShort = 0;  // words whose products are summed in int16 first; 0: none
};

// Elements that FP32 sums are made of.
template <class Vectors>
struct FloatElements : Elements<Vectors> {
  using Sums = typename Vectors::Floats;
  using Float = typename Vectors::Float;
  static constexpr bool kBiased = false;

  static HWY_INLINE Float load_right(const float* from) { return Vectors::load(from); }
  static HWY_INLINE Float broadcast_left(const float* from) { return Vectors::broadcast(from); }
};

// FP32.
template <class Vectors>
struct Fma : FloatElements<Vectors> {
  using Float = typename Vectors::Float;
  static constexpr int kPart = 4;

  static HWY_INLINE void add_products(Float& sum, Float right, Float left) {
    sum = Vectors::fma(left, right, sum);
  }
};

// Words of int8, or pairs of int16. Zen 5 loses a tenth where they are loaded as FP32.
template <class Vectors>
struct WordElements : Elements<Vectors> {
  using Sums = typename Vectors::Ints;
  using Int = typename Vectors::Int;

  static HWY_INLINE Int load_right(const float* from) {
    return Vectors::load(reinterpret_cast<const uint32_t*>(from));
  }
  static HWY_INLINE Int broadcast_left(const float* from) {
    return Vectors::broadcast(reinterpret_cast<const int32_t*>(from));
  }
};

// Words of small int8 values without an instruction for them. Products of two words are added in
// pairs of int16, which hold those of kWords words; widen() then makes int32 of them.
template <class Vectors, int64_t kWords>
struct ShortWordElements : WordElements<Vectors> {
  using Int = typename Vectors::Int;
  static constexpr bool kBiased = true;
  static constexpr int64_t kShort = kWords;

  // In a register: GCC 12 would load it once for each of its uses.
  static HWY_INLINE Int load_right(const float* from) {
    Int words = WordElements<Vectors>::load_right(from);
    __asm__("" : "+v"(words));
    return words;
  }
  // In assembly: GCC 12 multiplies everything first, then spills the products.
  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    Int pairs;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
            : "+v"(sum), "=&v"(pairs)
            : "v"(right), "v"(left));
  }
};
