// FP32 on AVX2: an 8 x 24 tile.
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/isa/tile32.h"
#include "base/flush_modes.h"

HWY_PUSH_ATTRIBUTES("avx2,fma")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/vectors256-inl.h"

#include "backend/cpu/gemm/isa/tile-inl.h"

#include "backend/cpu/gemm/isa/tile32-inl.h"

}  // namespace

void chain_avx2(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  chain<Fma<Vectors256>>(count, a, b, from, to);
}
void tile32_avx2(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  tile32<Fma<Vectors256>, 2>(count, a, b, from, to);
}
void scaled_avx2(const SegmentRun& run, TileIn from, TileOut to) {
  Segments<Fma<Vectors256>>::add_scaled(run, from, to);
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
