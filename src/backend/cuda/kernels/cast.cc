#include "backend/cuda/kernels/cast.h"

#include "backend/cuda/kernels/mx_block.h"

namespace ng::cuda {
namespace {

constexpr int kCastThreads = 256;
constexpr int kTile = 32;  ///< rows and columns of a tile, and values of a block
constexpr int kTileWarps = kCastThreads / kWarp;

template <class Code>
__global__ void __launch_bounds__(kCastThreads)
    cast_each(Fp32Matrix x, ElementCast cast, Code* codes) {
  const int64_t i = int64_t{blockIdx.x} * kCastThreads + threadIdx.x;
  if (i >= x.rows * x.cols) return;
  codes[i] = static_cast<Code>(code_of(cast, x.data[i], i / x.cols, i % x.cols, x.cols));
}

template <class Code>
void launch_cast(Stream stream, const Fp32Matrix& x, const ElementCast& cast, Code* codes) {
  const int64_t blocks = (x.rows * x.cols + kCastThreads - 1) / kCastThreads;
  if (blocks == 0) return;
  launch<cast_each<Code>>(
      stream, {.grid = {static_cast<unsigned>(blocks)}, .block = {kCastThreads}}, x, cast, codes);
}

/// A tile of 32 x 32 values a block of threads, a row or column of it a warp at a time.
__global__ void __launch_bounds__(kCastThreads)
    quantize_tiles(Fp32Matrix x, MxCast cast, MxOperand straight, MxOperand turned) {
  NG_SHARED(float, tile, kTile*(kTile + 1));  // rows apart by one more: columns without conflicts
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t across = (x.cols + kTile - 1) / kTile, down = (x.rows + kTile - 1) / kTile;
  const int64_t tile_row = blockIdx.x / across, tile_col = blockIdx.x % across;
  const int64_t row0 = tile_row * kTile, col0 = tile_col * kTile;
  for (int r = warp; r < kTile; r += kTileWarps) {
    const bool inside = row0 + r < x.rows && col0 + lane < x.cols;
    tile[r * (kTile + 1) + lane] = inside ? x.data[(row0 + r) * x.cols + col0 + lane] : 0.0f;
  }
  __syncthreads();
  for (int line = warp; line < kTile; line += kTileWarps) {
    if (straight.codes != nullptr && row0 + line < x.rows)
      put_block(cast, straight, tile[line * (kTile + 1) + lane], row0 + line, col0 + lane, x.cols,
                (row0 + line) * across + tile_col);
    if (turned.codes != nullptr && col0 + line < x.cols)
      put_block(cast, turned, tile[lane * (kTile + 1) + line], row0 + lane, col0 + line, x.cols,
                (col0 + line) * down + tile_row);
  }
}

}  // namespace

void cast_elements(Stream stream, const Fp32Matrix& x, const ElementCast& cast, uint8_t* codes) {
  launch_cast(stream, x, cast, codes);
}

void cast_elements(Stream stream, const Fp32Matrix& x, const ElementCast& cast, uint16_t* codes) {
  launch_cast(stream, x, cast, codes);
}

void quantize_mx(Stream stream, const Fp32Matrix& x, const MxCast& cast, const MxOperand& straight,
                 const MxOperand& turned) {
  const int64_t tiles = ((x.rows + kTile - 1) / kTile) * ((x.cols + kTile - 1) / kTile);
  if (tiles == 0) return;
  launch<quantize_tiles>(stream, {.grid = {static_cast<unsigned>(tiles)}, .block = {kCastThreads}},
                         x, cast, straight, turned);
}

}  // namespace ng::cuda
