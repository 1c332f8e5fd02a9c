// 8 x 48 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512vnni")
namespace ng::cpu {
namespace {

struct Avx512Vnni {
  using Int = __m512i;
  using Right = Int;
  using Float = __m512;
  static constexpr int kRows = 8;
  static constexpr int kPart = 4;
  static constexpr bool kBiased = true;
  static constexpr int kWidth = 16;

  static HWY_INLINE Int load(const uint32_t* from) { return _mm512_loadu_si512(from); }
  static HWY_INLINE Right load_right(const uint32_t* from) { return load(from); }
  static HWY_INLINE Float load(const float* from) { return _mm512_loadu_ps(from); }
  static HWY_INLINE void store(Int v, uint32_t* to) { _mm512_storeu_si512(to, v); }
  static HWY_INLINE void store(Float v, float* to) { _mm512_storeu_ps(to, v); }
  static HWY_INLINE Float broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static HWY_INLINE Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static HWY_INLINE Float add_bits(Float a, Float b) {
    return _mm512_castsi512_ps(add(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static HWY_INLINE Float subtract_bits(Float a, int32_t b) {
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(b)));
  }
  static HWY_INLINE Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  // The form without mask reads an undefined vector, which GCC 12 warns of.
  static HWY_INLINE Float to_float(Int v) { return _mm512_maskz_cvtepi32_ps(0xFFFF, v); }

  // In assembly: GCC 12 would load the value once for each of its uses,
  static HWY_INLINE Int broadcast(const int32_t* from) {
    Int v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*from));
    return v;
  }
  // and copies accumulators around the intrinsic, then spills them, which halves the speed.
  static HWY_INLINE void add_dots(Int& acc, Int right, Int left) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(right), "v"(left));
  }
};

#include "backend/cpu/isa/dot-inl.h"

}  // namespace

void dot_scaled_avx512vnni(const DotRun& run, TileIn from, TileOut to) {
  Dots<Avx512Vnni>::add_scaled(run, from, to);
}
void dot_avx512vnni(const DotRun& run, int32_t* sums) { Dots<Avx512Vnni>::add(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
