// 4 x 24 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,avxvnni")
namespace ng::cpu {
namespace {

struct AvxVnni {
  using Int = __m256i;
  using Right = Int;
  using Float = __m256;
  static constexpr int kRows = 4;
  static constexpr int kPart = 4;
  static constexpr bool kBiased = true;
  static constexpr int kWidth = 8;

  static HWY_INLINE Int load(const uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static HWY_INLINE Right load_right(const uint32_t* from) { return load(from); }
  static HWY_INLINE Float load(const float* from) { return _mm256_loadu_ps(from); }
  static HWY_INLINE void store(Int v, uint32_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  }
  static HWY_INLINE void store(Float v, float* to) { _mm256_storeu_ps(to, v); }
  static HWY_INLINE Float broadcast(const float* from) { return _mm256_set1_ps(*from); }
  static HWY_INLINE Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static HWY_INLINE Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static HWY_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static HWY_INLINE Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }

  // In assembly for the reasons of dot_avx512vnni.cc.
  static HWY_INLINE Int broadcast(const int32_t* from) {
    Int v;
    __asm__("vpbroadcastd %1, %0" : "=x"(v) : "m"(*from));
    return v;
  }
  static HWY_INLINE void add_dots(Int& acc, Int right, Int left) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(right), "x"(left));
  }
};

#include "backend/cpu/isa/dot-inl.h"

}  // namespace

void dot_scaled_avxvnni(const DotRun& run, TileIn from, TileOut to) {
  Dots<AvxVnni>::add_scaled(run, from, to);
}
void dot_avxvnni(const DotRun& run, int32_t* sums) { Dots<AvxVnni>::add(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
