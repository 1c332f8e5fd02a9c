// Vectors of 512 bits as tile-inl.h wants them, for the sets that have them. Include in the places
// that it is included in, before it.
#pragma once

struct Vectors512 {
  // As template arguments, which bare vectors lose their attributes as.
  struct Ints {
    using Vector = __m512i;
  };
  struct Floats {
    using Vector = __m512;
  };
  using Int = Ints::Vector;
  using Float = Floats::Vector;
  static constexpr int kWidth = 16;
  static constexpr int kRows = 8;
  static constexpr int kChainRows = 8;  // whose sums fit the registers

  static HWY_INLINE Int load(const uint32_t* from) { return _mm512_loadu_si512(from); }
  static HWY_INLINE Float load(const float* from) { return _mm512_loadu_ps(from); }
  static HWY_INLINE void store(Int v, uint32_t* to) { _mm512_storeu_si512(to, v); }
  static HWY_INLINE void store(Float v, float* to) { _mm512_storeu_ps(to, v); }
  // In assembly for the reasons of vectors256-inl.h.
  static HWY_INLINE Float broadcast(const float* from) {
    Float v;
    __asm__("vbroadcastss %1, %0" : "=v"(v) : "m"(*from));
    return v;
  }
  static HWY_INLINE Int broadcast(const int32_t* from) {
    Int v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*from));
    return v;
  }
  static HWY_INLINE Int bits(Float v) { return _mm512_castps_si512(v); }
  static HWY_INLINE Float float_of(Int v) { return _mm512_castsi512_ps(v); }
  static HWY_INLINE Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static HWY_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static HWY_INLINE Float add_bits(Float a, Float b) { return float_of(add(bits(a), bits(b))); }
  static HWY_INLINE Float subtract_bits(Float a, int32_t b) {
    return float_of(_mm512_sub_epi32(bits(a), _mm512_set1_epi32(b)));
  }
  static HWY_INLINE Int shift_right(Int a, int count) {
    return _mm512_maskz_srli_epi32(0xFFFF, a, static_cast<unsigned>(count));
  }
  // values[indices modulo 16]
  static HWY_INLINE Int permute(Int values, Int indices) {
    return _mm512_maskz_permutexvar_epi32(0xFFFF, indices, values);
  }
  static HWY_INLINE Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  // The form without mask reads an undefined vector, which GCC 12 warns of.
  static HWY_INLINE Float to_float(Int v) { return _mm512_maskz_cvtepi32_ps(0xFFFF, v); }
  static HWY_INLINE Float to_float(Float v) { return v; }
};
