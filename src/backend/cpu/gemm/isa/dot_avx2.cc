// Pairs of int16, and words of small int8 values, on AVX2, which has no dot products: an 8 x 24
// tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx2,fma")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors256-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

struct Int16Avx2 : WordElements<Vectors256> {
  static constexpr int kPart = 2;
  static constexpr bool kBiased = false;

  // Both as in ShortWordElements.
  static HWY_INLINE Int load_right(const float* from) {
    Int pairs = WordElements::load_right(from);
    __asm__("" : "+x"(pairs));
    return pairs;
  }
  static HWY_INLINE void add_products(Int& sum, Int right, Int left) {
    Int products;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sum), "=&x"(products)
            : "x"(right), "x"(left));
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

void int16_dot_scaled_avx2(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Int16Avx2>::add_scaled(run, from, to);
}
void int16_dot_avx2(const SegmentRun& run, int32_t* sums) { Segments<Int16Avx2>::add(run, sums); }

void short_dot_scaled_avx2(const SegmentRun& run, TileIn from, TileOut to) {
  add_short_scaled<ShortAvx2>(run, from, to);
}
void short_dot_avx2(const SegmentRun& run, int32_t* sums) { add_short<ShortAvx2>(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
