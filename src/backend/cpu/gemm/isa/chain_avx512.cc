// FP32 on AVX-512: an 8 x 48 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/tile32.h"
#include "base/flush_modes.h"

HWY_PUSH_ATTRIBUTES("avx512f")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors512-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

#include "backend/cpu/gemm/isa/tile32-inl.h"

}  // namespace

void chain_avx512(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Fma<Vectors512>>(count, a, b, from, to);
}
void tile32_avx512(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  tile32<Fma<Vectors512>, 4>(count, a, b, from, to);
}
void scaled_avx512(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Fma<Vectors512>>::add_scaled(run, from, to);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
