// 4 x 24 tile without an instruction for it: magnitudes of b times a with the signs of b, pairs of
// products in int16. Values of -128, which no format has, would overflow.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma")
namespace ng::cpu {
namespace {

#include "backend/cpu/isa/vectors256-inl.h"

struct Avx2 : Vectors256 {
  static constexpr int kRows = 4;
  static constexpr int kPart = 2;
  static constexpr bool kBiased = false;

  struct Right {
    Int value, magnitude;
  };

  static HWY_INLINE Right load_right(const uint32_t* from) {
    return {load(from), _mm256_abs_epi8(load(from))};
  }
  // |2 · 127 · 127| < 2^15
  static HWY_INLINE void add_dots(Int& acc, const Right& right, Int left) {
    const Int pairs = _mm256_maddubs_epi16(right.magnitude, _mm256_sign_epi8(left, right.value));
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

#include "backend/cpu/isa/dot-inl.h"

}  // namespace

void dot_scaled_avx2(const DotRun& run, TileIn from, TileOut to) {
  Dots<Avx2>::add_scaled(run, from, to);
}
void dot_avx2(const DotRun& run, int32_t* sums) { Dots<Avx2>::add(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
