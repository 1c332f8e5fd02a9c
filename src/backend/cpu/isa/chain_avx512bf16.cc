// Elements are pairs of BF16 patterns along K, the first one in the high half: acc + odd · odd +
// even · even then is two steps of the chain in their order. [base/bf16_dot.h]
#include <hwy/base.h>
#include <immintrin.h>

#include "backend/cpu/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bf16")
namespace ng::cpu {
namespace {

#include "backend/cpu/isa/chain512-inl.h"

struct Dot {
  // In assembly: the intrinsic wants a vector type that clang 14 and GCC 12 convert differently.
  static HWY_INLINE void add(__m512 left, __m512 right, __m512& acc) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(right), "v"(left));
  }
};

}  // namespace

void chain_avx512bf16(int64_t k, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Dot>(k, a, b, from, to);
}
void scaled_avx512bf16(int64_t k, const float* a, const float* b, const SegmentScales& scales,
                       float* tile) {
  add_scaled<Dot>(k, a, b, scales, tile);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
