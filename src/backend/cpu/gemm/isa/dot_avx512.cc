// Words of small int8 values on AVX-512 without VNNI: an 8 x 48 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors512-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

template <int64_t kWords>
struct ShortAvx512 : ShortWordElements<Vectors512, kWords> {
  using Int = Vectors512::Int;
  static constexpr int kPart = 2;

  static HWY_INLINE Int ones() { return _mm512_set1_epi16(1); }
  static HWY_INLINE Int widen(Int pairs, Int factors) { return _mm512_madd_epi16(pairs, factors); }
};

}  // namespace

void short_dot_scaled_avx512(const SegmentRun& run, TileIn from, TileOut to) {
  add_short_scaled<ShortAvx512>(run, from, to);
}
void short_dot_avx512(const SegmentRun& run, int32_t* sums) { add_short<ShortAvx512>(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
