// Sums over the rows of each column, as gradients of biases and gains are: strips of rows side by
// side, each by the warps of a block, in an order that the shape fixes. In FP64, so that it is
// mostly that of one row after the other to the bit.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

inline constexpr int kStripWarps = 8;
inline constexpr int kStripThreads = kStripWarps * kWarp;
inline constexpr int64_t kLeastStrip = 64, kMostStrips = 32;

/// What is added up of a column at once.
template <int kSums>
struct ColumnSums {
  double of[kSums] = {};
  __device__ void add(const ColumnSums& more) {
    NG_UNROLL
    for (int i = 0; i < kSums; ++i) of[i] += more.of[i];
  }
};

/// Columns first_col + [0, cols), 32 by a block, of strips of rows: partial[strip][column].
template <int kSums, class F>
__global__ void __launch_bounds__(kStripThreads)
    sum_strips(F f, int64_t rows, int64_t strip, int64_t first_col, int64_t cols,
               ColumnSums<kSums>* partial) {
  NG_SHARED(double, parts, kSums* kStripThreads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t col = int64_t{blockIdx.x} * kWarp + lane;
  const int64_t first = int64_t{blockIdx.y} * strip;
  const int64_t end = first + strip < rows ? first + strip : rows;
  ColumnSums<kSums> sums;
  for (int64_t row = first + warp; row < end && col < cols; row += kStripWarps)
    sums.add(f.of(row, first_col + col));
  for (int i = 0; i < kSums; ++i)
    parts[i * kStripThreads + static_cast<int>(threadIdx.x)] = sums.of[i];
  __syncthreads();
  if (warp != 0 || col >= cols) return;
  for (int w = 1; w < kStripWarps; ++w)
    for (int i = 0; i < kSums; ++i) sums.of[i] += parts[i * kStripThreads + w * kWarp + lane];
  partial[int64_t{blockIdx.y} * cols + col] = sums;
}

template <int kSums, class F>
struct FinishColumn {
  F f;
  int64_t strips, first_col, cols;
  const ColumnSums<kSums>* partial;
  __device__ void operator()(int64_t /* row */, int64_t col) const {
    ColumnSums<kSums> sums;
    for (int64_t i = 0; i < strips; ++i) sums.add(partial[i * cols + col]);
    f.put(first_col + col, sums);
  }
};

/// f.put(col, Σ of all rows of f.of(row, col)) of each column.
template <int kSums, class F>
void sum_columns(Stream stream, std::string_view operation, int64_t rows, int64_t cols, const F& f,
                 const Scratch& scratch) {
  const int64_t strip = std::max(kLeastStrip, (rows + kMostStrips - 1) / kMostStrips);
  const int64_t strips = std::max<int64_t>((rows + strip - 1) / strip, 1);
  const auto room = static_cast<int64_t>(scratch.bytes / sizeof(ColumnSums<kSums>)) / strips;
  const int64_t at_once = std::min(cols, std::max<int64_t>(room, kWarp));
  auto* partial = scratch.take<ColumnSums<kSums>>(operation, strips * at_once);
  for (int64_t first = 0; first < cols; first += at_once) {
    const int64_t some = std::min(at_once, cols - first);
    launch<sum_strips<kSums, F>>(
        stream,
        {.grid = {blocks_of(some, kWarp), static_cast<unsigned>(strips)}, .block = {kStripThreads}},
        f, rows, strip, first, some, partial);
    for_each_place(stream, 1, some, FinishColumn<kSums, F>{f, strips, first, some, partial});
  }
}

}  // namespace ng::cuda
