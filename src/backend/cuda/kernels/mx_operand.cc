#include "backend/cuda/kernels/mx_operand.h"

#include <algorithm>

namespace ng::cuda {
namespace {

constexpr int kTileThreads = 256;
constexpr int kTileWarps = kTileThreads / kWarp;
constexpr int kTileLine = kMxTile + 1;  ///< rows apart by one more: columns without conflicts

/// A group of blocks, of which each lane has a value of each block, by a warp.
__device__ inline void put_group(const MxJob& job, int64_t unit, int lane,
                                 const float (&x)[kMostHadamardBlocks]) {
  const OperandGroups& from = job.from;
  const int64_t row = unit / from.groups();
  if (job.stats != nullptr && unit == 0 && lane == 0) count_values(job.stats, from.rows * from.k);
  for (int b = 0; b < kMostHadamardBlocks; ++b) {
    if (b >= from.blocks()) break;
    const int64_t place = from.at(unit, b, lane);
    const MxCode made =
        put_block(job.cast, job.y, x[b], from.draw_row(row, place), from.draw_col(row, place),
                  from.whole_cols, (row * from.k_padded + place) / kMxBlock);
    if (job.stats == nullptr || place >= from.k) continue;
    count_nonfinite(job.stats, x[b]);
    if (made.scale != kE8m0NanCode)
      count_rounded(job.stats, x[b], made.scaled, job.cast.range.max,
                    (made.code & ~job.cast.element.grid.sign_mask) == 0);
  }
}

struct MxGroups {
  MxJob job;
  __device__ void operator()(int64_t unit, int lane) const {
    float x[kMostHadamardBlocks];
    job.from.load(unit, lane, x);
    put_group(job, unit, lane, x);
  }
};

/// The groups of an operand that lie in the tile at (row0, col0) of the source, a line of it by a
/// warp at a time.
template <typename Tile>
__device__ void put_tile(const MxJob& job, const Tile& tile, int64_t row0, int64_t col0) {
  const OperandGroups& from = job.from;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first = from.is_turned ? col0 : row0, k0 = from.is_turned ? row0 : col0;
  for (int line = static_cast<int>(threadIdx.x) / kWarp; line < kMxTile; line += kTileWarps) {
    if (first + line >= from.rows) break;
    for (int of = 0; of < kMxTile && k0 + of < from.k_padded; of += from.group()) {
      float x[kMostHadamardBlocks];
      for (int b = 0; b < kMostHadamardBlocks; ++b) {
        const int along = of + b * kMxBlock + lane;
        const int at = from.is_turned ? along * kTileLine + line : line * kTileLine + along;
        x[b] = b < from.blocks() ? static_cast<float>(tile[at]) : 0.0f;
      }
      from.transform(lane, x);
      put_group(job, (first + line) * from.groups() + (k0 + of) / from.group(), lane, x);
    }
  }
}

__global__ void __launch_bounds__(kTileThreads, 3) prepare_tiles(MxJob straight, MxJob turned) {
  NG_SHARED(float, tile, kMxTile* kTileLine);
  const StoredSource& source = straight.from.source;
  const int64_t row0 = int64_t{blockIdx.y} * kMxTile, col0 = int64_t{blockIdx.x} * kMxTile;
  for (int i = static_cast<int>(threadIdx.x); i < kMxTile * kMxTile; i += kTileThreads) {
    const int r = i / kMxTile, c = i % kMxTile;
    const bool is_inside = row0 + r < straight.from.rows && col0 + c < turned.from.rows;
    tile[r * kTileLine + c] = is_inside ? source(row0 + r, col0 + c) : 0.0f;
  }
  __syncthreads();
  put_tile(straight, tile, row0, col0);
  put_tile(turned, tile, row0, col0);
}

}  // namespace

void prepare_mx(Stream stream, const MxJob& job) {
  for_each_row(stream, job.from.rows * job.from.groups(), MxGroups{job});
}

void prepare_mx_both(Stream stream, const MxJob& straight, const MxJob& turned) {
  // Groups that are padding lie beyond the source.
  const int64_t down = std::max(straight.from.rows, turned.from.k_padded);
  const int64_t across = std::max(turned.from.rows, straight.from.k_padded);
  if (down == 0 || across == 0) return;
  launch<prepare_tiles>(
      stream,
      {.grid = {blocks_of(across, kMxTile), blocks_of(down, kMxTile)}, .block = {kTileThreads}},
      straight, turned);
}

}  // namespace ng::cuda
