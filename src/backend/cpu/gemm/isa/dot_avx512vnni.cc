// Words of int8 and pairs of int16 on AVX-512 VNNI: an 8 x 48 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512vnni")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors512-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

// In assembly: GCC 12 copies sums around intrinsics, then spills them, which halves the speed.
struct Int8Vnni512 : WordElements<Vectors512> {
  static constexpr int kPart = 4;
  static constexpr bool kBiased = true;
  // Together Zen 5 gains 1 % in MXFP4 by them and 4 % where segments are shorter.
  static constexpr bool kFetches = false;
  static constexpr bool kUnrolls = true;

  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
  }
};

struct Int16Vnni512 : WordElements<Vectors512> {
  static constexpr int kPart = 4;
  static constexpr bool kBiased = false;

  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
  }
};

}  // namespace

void dot_scaled_avx512vnni(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int8Vnni512>::add_scaled(run, from, to);
}
void dot_scaled_by_lookup_avx512vnni(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int8Vnni512>::add_scaled_by_lookup(run, from, to);
}
void dot_avx512vnni(const SegmentRun& run, int32_t* sums) { Segments<Int8Vnni512>::add(run, sums); }

void int16_dot_scaled_avx512vnni(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int16Vnni512>::add_scaled(run, from, to);
}
void int16_dot_avx512vnni(const SegmentRun& run, int32_t* sums) {
  Segments<Int16Vnni512>::add(run, sums);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
