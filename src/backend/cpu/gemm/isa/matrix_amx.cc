// Matrix tiles of AMX; what is between them on AVX-512.
#include <hwy/base.h>
#include <immintrin.h>

#include <cmath>
#include <cstdint>

#include "backend/cpu/gemm/isa/matrix.h"
#include "base/tiles.h"

HWY_PUSH_ATTRIBUTES("avx512f")
namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/matrix-inl.h"

}  // namespace

void tile32_amx(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  tile32_pairs<AmxTiles>(count, a, b, from, to);
}
void dot_scaled_amx(const SegmentRun& run, TileIn from, TileOut to) {
  add_scaled<AmxTiles>(run, from, to);
}
void dot_amx(const SegmentRun& run, int32_t* sums) { add_dots<AmxTiles>(run, sums); }

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
