// Words of int8 and pairs of int16 on AVX-VNNI: an 8 x 24 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,avxvnni")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors256-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

// In assembly for the reasons of dot_avx512vnni.cc.
struct Int8Vnni256 : WordElements<Vectors256> {
  static constexpr int kPart = 4;
  static constexpr bool kBiased = true;
  static constexpr bool kFetches = false;  // NVFP4 gains up to 11 % on Zen 5

  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(right), "x"(left));
  }
};

struct Int16Vnni256 : WordElements<Vectors256> {
  static constexpr int kPart = 4;
  static constexpr bool kBiased = false;

  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(right), "x"(left));
  }
};

}  // namespace

void dot_scaled_avxvnni(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int8Vnni256>::add_scaled(run, from, to);
}
void dot_avxvnni(const SegmentRun& run, int32_t* sums) { Segments<Int8Vnni256>::add(run, sums); }

void int16_dot_scaled_avxvnni(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int16Vnni256>::add_scaled(run, from, to);
}
void int16_dot_avxvnni(const SegmentRun& run, int32_t* sums) {
  Segments<Int16Vnni256>::add(run, sums);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
