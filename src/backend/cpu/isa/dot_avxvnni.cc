// 4 x 24 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,avxvnni")
namespace ng::cpu {
namespace {

#include "backend/cpu/isa/vectors256-inl.h"

struct AvxVnni : Vectors256 {
  using Right = Int;
  static constexpr int kRows = 4;
  static constexpr int kPart = 4;
  static constexpr bool kBiased = true;

  static HWY_INLINE Right load_right(const uint32_t* from) { return load(from); }
  // In assembly for the reasons of dot_avx512vnni.cc.
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
