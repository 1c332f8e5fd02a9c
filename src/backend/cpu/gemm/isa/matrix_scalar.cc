// Matrix tiles as they are defined, for any CPU: what tests compare the instructions' kernels by.
#include <cmath>
#include <cstdint>

#include "backend/cpu/gemm/isa/matrix.h"
#include "base/tiles.h"

namespace ng::cpu {
namespace {

#include "backend/cpu/gemm/isa/matrix-inl.h"

}  // namespace

void tile32_scalar_tiles(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  tile32_pairs<ScalarTiles>(count, a, b, from, to);
}
void dot_scaled_scalar_tiles(const SegmentRun& run, TileIn from, TileOut to) {
  add_scaled<ScalarTiles>(run, from, to);
}
void dot_scalar_tiles(const SegmentRun& run, int32_t* sums) { add_dots<ScalarTiles>(run, sums); }

}  // namespace ng::cpu
