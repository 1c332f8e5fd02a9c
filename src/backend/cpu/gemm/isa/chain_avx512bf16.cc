// Pairs of BF16 on AVX-512 BF16: an 8 x 48 tile. The value of the lower k is in the high half: acc
// + odd · odd + even · even then is two steps of the chain in their order. [base/bf16_dot.h]
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/microkernel.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bf16")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors512-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

struct Bf16Dot512 : FloatElements<Vectors512> {
  static constexpr int kPart = 8;  // 12 sums would wait for one another

  // In assembly: the intrinsic wants a vector type that clang 14 and GCC 12 convert differently.
  static HWY_INLINE void add_products(Float& sum, Float right, Float left) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
  }
};

}  // namespace

void chain_avx512bf16(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Bf16Dot512>(count, a, b, from, to);
}
void scaled_avx512bf16(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Bf16Dot512>::add_scaled(run, from, to);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
