#include <hwy/base.h>
#include <immintrin.h>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f")
namespace ng::cpu {
namespace {

#include "backend/cpu/isa/chain512-inl.h"

struct Fma {
  static HWY_INLINE void add(__m512 left, __m512 right, __m512& acc) {
    acc = _mm512_fmadd_ps(left, right, acc);
  }
};

}  // namespace

void chain_avx512(int64_t k, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Fma>(k, a, b, from, to);
}
void scaled_avx512(int64_t k, const float* a, const float* b, const SegmentScales& scales,
                   float* tile) {
  add_scaled<Fma>(k, a, b, scales, tile);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
