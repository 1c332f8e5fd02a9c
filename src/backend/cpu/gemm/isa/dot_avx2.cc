// Words of int8 on AVX2, which has no instruction for them: a 4 x 24 tile. Magnitudes of b times a
// with the signs of b, pairs of products in int16. Values of -128, which no format has, would
// overflow. Small values are biased instead, and int16 holds their sums.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors256-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

struct Int8Avx2 : WordElements<Vectors256> {
  static constexpr int kPart = 2;
  static constexpr bool kBiased = false;

  struct Right {
    Int value, magnitude;
  };

  static HWY_INLINE Right load_right(const float* from) {
    const Int value = WordElements::load_right(from);
    return {value, _mm256_abs_epi8(value)};
  }
  // |2 · 127 · 127| < 2^15
  static HWY_INLINE void add_products(Int& sum, const Right& right, Int left) {
    const Int pairs = _mm256_maddubs_epi16(right.magnitude, _mm256_sign_epi8(left, right.value));
    sum = add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

template <int64_t kWords>
struct ShortAvx2 : ShortWordElements<Vectors256, kWords> {
  using Int = Vectors256::Int;
  static constexpr int kPart = 2;

  static HWY_INLINE Int ones() { return _mm256_set1_epi16(1); }
  static HWY_INLINE Int widen(Int pairs, Int factors) { return _mm256_madd_epi16(pairs, factors); }
};

}  // namespace

void dot_scaled_avx2(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int8Avx2>::add_scaled(run, from, to);
}
void dot_avx2(const SegmentRun& run, int32_t* sums) { Segments<Int8Avx2>::add(run, sums); }

void short_dot_scaled_avx2(const SegmentRun& run, TileIn from, TileOut to) {
  add_short_scaled<ShortAvx2>(run, from, to);
}
void short_dot_avx2(const SegmentRun& run, int32_t* sums) { add_short<ShortAvx2>(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
