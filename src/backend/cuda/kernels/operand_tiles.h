// The groups of an operand, or of both operands of a matrix from one read of it. What is turned
// goes by way of tiles in shared memory, so that a warp reads values that lie side by side.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/operand_groups.h"

namespace ng::cuda {

constexpr int kGroupsOfWarp = 4;
constexpr int kTileThreads = 256;
constexpr int kTileWarps = kTileThreads / kWarp;
constexpr int kTileLine = kOperandTile + 1;  ///< rows apart by one more: columns without conflicts

/// Where anybody asks, what a warp counted, and by the first of all how many values there are.
template <class Use>
__device__ void put_counts(const Use& use, const CastCounts& counts, int lane, bool is_first) {
  if (use.stats() == nullptr) return;
  if (is_first && lane == 0) count_values(use.stats(), use.from().rows * use.from().k);
  counts.put(use.stats(), lane);
}

/// What is done with groups: use.from() says of which, and use(place, lane, x, counts) has the
/// values of a group, of which each lane holds one of each block, 0 where there is none. What is
/// counted goes to use.stats() unless null.
template <class Use>
struct LoadedGroups {
  Use use;
  Divisor groups;  ///< of a row
  int64_t first_row, count;
  __device__ void operator()(int64_t warp, int lane) const {
    CastCounts counts;
    for (int64_t i = warp * kGroupsOfWarp; i < (warp + 1) * kGroupsOfWarp && i < count; ++i) {
      const auto [row, group] = groups.split(i);
      const GroupPlace place{first_row + row, group * use.from().group()};
      float x[kMostHadamardBlocks];
      use.from().load(place, lane, x);
      use(place, lane, x, counts);
    }
    put_counts(use, counts, lane, warp == 0);
  }
};

/// Those of rows [first, first + rows), some groups by a warp.
template <class Use>
void for_rows_of_groups(Stream stream, const Use& use, int64_t first, int64_t rows) {
  const Divisor groups(std::max<int64_t>(use.from().groups(), 1));
  const int64_t count = rows * use.from().groups();
  for_each_row(stream, (count + kGroupsOfWarp - 1) / kGroupsOfWarp,
               LoadedGroups<Use>{use, groups, first, count});
}

/// The groups that lie in the tile at (row0, col0) of the source, a line of it by a warp at a time.
template <class Use, typename Tile>
__device__ void use_tile(const Use& use, const Tile& tile, int64_t row0, int64_t col0) {
  const OperandGroups& from = use.from();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first = from.is_turned ? col0 : row0, k0 = from.is_turned ? row0 : col0;
  CastCounts counts;
  for (int line = static_cast<int>(threadIdx.x) / kWarp; line < kOperandTile; line += kTileWarps) {
    if (first + line >= from.rows) break;
    for (int of = 0; of < kOperandTile && k0 + of < from.k_padded; of += from.group()) {
      float x[kMostHadamardBlocks];
      for (int b = 0; b < kMostHadamardBlocks; ++b) {
        const int along = of + b * kMxBlock + lane;
        const int at = from.is_turned ? along * kTileLine + line : line * kTileLine + along;
        x[b] = b < from.blocks() ? static_cast<float>(tile[at]) : 0.0f;
      }
      from.transform(lane, x);
      use(GroupPlace{first + line, k0 + of}, lane, x, counts);
    }
  }
  put_counts(use, counts, lane, row0 == 0 && col0 == 0 && threadIdx.x == 0);
}

template <class Use>
__global__ void __launch_bounds__(kTileThreads, 3)
    use_tiles(Use straight, Use turned, bool are_both) {
  NG_SHARED(float, tile, kOperandTile* kTileLine);
  const OperandGroups& from = turned.from();
  const int64_t row0 = int64_t{blockIdx.y} * kOperandTile;
  const int64_t col0 = int64_t{blockIdx.x} * kOperandTile;
  for (int i = static_cast<int>(threadIdx.x); i < kOperandTile * kOperandTile; i += kTileThreads) {
    const int r = i / kOperandTile, c = i % kOperandTile;
    const bool is_inside = row0 + r < from.k && col0 + c < from.rows;
    tile[r * kTileLine + c] = is_inside ? from.source(row0 + r, col0 + c) : 0.0f;
  }
  __syncthreads();
  if (are_both) use_tile(straight, tile, row0, col0);
  use_tile(turned, tile, row0, col0);
}

/// The groups of `turned`, and of the same source those of `straight` unless null.
template <class Use>
void for_tiles(Stream stream, const Use* straight, const Use& turned) {
  // Groups that are padding lie beyond the source.
  const OperandGroups& from = turned.from();
  const int64_t across = straight != nullptr ? straight->from().k_padded : from.rows;
  if (from.k_padded == 0 || across == 0) return;
  launch<use_tiles<Use>>(
      stream,
      {.grid = {blocks_of(across, kOperandTile), blocks_of(from.k_padded, kOperandTile)},
       .block = {kTileThreads}},
      straight != nullptr ? *straight : turned, turned, straight != nullptr);
}

/// The groups of both operands of a source, the second turned; false: they fit into no tile.
template <class Use>
[[nodiscard]] bool for_both_groups(Stream stream, const Use& straight, const Use& turned) {
  if (!straight.from().fits_tile() || !turned.from().fits_tile()) return false;
  for_tiles(stream, &straight, turned);
  return true;
}

/// Those of one operand.
template <class Use>
void for_each_group(Stream stream, const Use& use) {
  const OperandGroups& from = use.from();
  if (from.is_turned && from.fits_tile()) return for_tiles<Use>(stream, nullptr, use);
  for_rows_of_groups(stream, use, 0, from.rows);
}

}  // namespace ng::cuda
