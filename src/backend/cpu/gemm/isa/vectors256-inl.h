// Vectors of 256 bits as tile-inl.h wants them, for the sets that have them. Include in the places
// that it is included in, before it.
#pragma once

struct Vectors256 {
  // As template arguments, which bare vectors lose their attributes as.
  struct Ints {
    using Vector = __m256i;
  };
  struct Floats {
    using Vector = __m256;
  };
  using Int = Ints::Vector;
  using Float = Floats::Vector;
  static constexpr int kWidth = 8;
  static constexpr int kRows = 8;
  static constexpr int kChainRows = 4;  // whose sums fit the registers

  static HWY_INLINE Int load(const uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static HWY_INLINE Float load(const float* from) { return _mm256_loadu_ps(from); }
  static HWY_INLINE void store(Int v, uint32_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  }
  static HWY_INLINE void store(Float v, float* to) { _mm256_storeu_ps(to, v); }
  // In assembly: GCC 12 would load the value once for each of its uses, which makes loops wait for
  // the load ports.
  static HWY_INLINE Float broadcast(const float* from) {
    Float v;
    __asm__("vbroadcastss %1, %0" : "=x"(v) : "m"(*from));
    return v;
  }
  static HWY_INLINE Int broadcast(const int32_t* from) {
    Int v;
    __asm__("vpbroadcastd %1, %0" : "=x"(v) : "m"(*from));
    return v;
  }
  static HWY_INLINE Int bits(Float v) { return _mm256_castps_si256(v); }
  static HWY_INLINE Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static HWY_INLINE Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static HWY_INLINE Float add_bits(Float a, Float b) {
    return _mm256_castsi256_ps(add(bits(a), bits(b)));
  }
  static HWY_INLINE Float subtract_bits(Float a, int32_t b) {
    return _mm256_castsi256_ps(_mm256_sub_epi32(bits(a), _mm256_set1_epi32(b)));
  }
  static HWY_INLINE Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static HWY_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static HWY_INLINE Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }
  static HWY_INLINE Float to_float(Float v) { return v; }
};
