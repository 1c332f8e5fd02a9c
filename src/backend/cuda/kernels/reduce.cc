// Sums whose order is fixed, those of columns aside to the bits of `ref`, and what is counted.
#include <cmath>
#include <utility>

#include "backend/cuda/kernels/column_sums.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/stored.h"

namespace ng::cuda {
namespace {

constexpr int64_t kChunk = 4096;
constexpr int kLanes = 16;
constexpr int kSumThreads = 256;
constexpr int kAhead = 16;  ///< values that a thread reads before it adds them

/// Sums of chunks: element i of the row-major matrix goes to lane i % 16 of chunk i / 4096, lanes
/// fold by +8, +4, +2, +1. [recipes.md §0]
template <bool kSquares>
__global__ void __launch_bounds__(kSumThreads)
    sum_chunks(StoredSource x, int64_t size, Divisor cols, double* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t chunk =
      int64_t{blockIdx.x} * (kSumThreads / kLanes) + static_cast<int>(threadIdx.x) / kLanes;
  double sum = 0;
  for (int64_t of = 0; of < kChunk && chunk * kChunk + of < size; of += kLanes * kAhead) {
    double values[kAhead];
    NG_UNROLL
    for (int n = 0; n < kAhead; ++n) {
      const int64_t i = chunk * kChunk + of + n * kLanes + lane;
      const auto [row, col] = cols.split(i);
      values[n] = i < size ? x(row, col) : 0.0;
    }
    NG_UNROLL
    for (int n = 0; n < kAhead; ++n) sum += kSquares ? values[n] * values[n] : values[n];
  }
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (lane == 0 && chunk * kChunk < size) sums[chunk] = sum;
}

/// *total += sums folded pairwise by index, an odd last one passing up; `sums` has room for twice
/// as many. One block.
__global__ void __launch_bounds__(kSumThreads)
    fold_sums(double* sums, int64_t count, double* total) {
  double *from = sums, *to = sums + count;
  for (; count > 1; count = (count + 1) / 2) {
    for (int64_t i = threadIdx.x; 2 * i < count; i += kSumThreads)
      to[i] = 2 * i + 1 < count ? from[2 * i] + from[2 * i + 1] : from[2 * i];
    __syncthreads();
    double* const old = from;
    from = to;
    to = old;
  }
  if (threadIdx.x == 0) *total += from[0];
}

template <bool kSquares>
void add_sum(Stream stream, std::string_view name, const ConstView& x, double* total,
             const Scratch& scratch) {
  if (x.size() == 0) return;
  const int64_t chunks = (x.size() + kChunk - 1) / kChunk;
  auto* sums = scratch.take<double>(name, 2 * chunks);
  launch<sum_chunks<kSquares>>(
      stream, {.grid = {blocks_of(chunks, kSumThreads / kLanes)}, .block = {kSumThreads}},
      stored_source(x), x.size(), Divisor(x.cols), sums);
  launch<fold_sums>(stream, {.block = {kSumThreads}}, sums, chunks, total);
}

struct AddColumn {
  Target sum;
  Source x;
  [[nodiscard]] __device__ ColumnSums<1> of(int64_t t, int64_t c) const { return {{x(t, c)}}; }
  __device__ void put(int64_t c, const ColumnSums<1>& total) const {
    sum.add(0, c, static_cast<float>(total.of[0]));
  }
};

/// A column by one thread: tokens are added in their order, in FP64.
struct MeanOfColumn {
  Target mean, in_bf16;
  Source x;
  __device__ void operator()(int64_t /* row */, int64_t c) const {
    double total = 0;
    for (int64_t t = 0; t < x.rows; ++t) total += x(t, c);
    const auto value = static_cast<float>(total / static_cast<double>(x.rows));
    mean.put(0, c, value);
    in_bf16.put(0, c, round_to_bf16(value));
  }
};

struct SubtractEach {
  Target y;
  Source x, row;
  __device__ void operator()(int64_t t, int64_t c) const { y.put(t, c, x(t, c) - row(0, c)); }
};

struct CountNonfinite {
  StoredSource x;
  unsigned long long* count;
  __device__ void operator()(int64_t row, int64_t col) const {
    if ((float_bits(x(row, col)) & 0x7FFFFFFFu) >= kFloatInf) atomicAdd(count, 1);
  }
};

}  // namespace

void perform(Stream stream, const AddColumnSums& op, const Scratch& scratch) {
  NG_CHECK(op.sum.rows == 1 && op.sum.cols == op.x.cols, op.sum.rows, op.sum.cols, op.x.cols);
  constexpr std::string_view kName = AddColumnSums::kName;
  sum_columns<1>(stream, kName, op.x.rows, op.x.cols,
                 AddColumn{target_of(kName, op.sum), source_of(kName, op.x)}, scratch);
}

void perform(Stream stream, const FindColumnMeans& op) {
  NG_CHECK(op.mean.rows == 1 && op.mean.cols == op.x.cols, op.mean.rows, op.mean.cols, op.x.cols);
  NG_CHECK(same_shape(op.in_bf16, op.mean), op.in_bf16.rows, op.in_bf16.cols);
  constexpr std::string_view kName = FindColumnMeans::kName;
  for_each_place(stream, 1, op.x.cols,
                 MeanOfColumn{target_of(kName, op.mean), target_of(kName, op.in_bf16),
                              source_of(kName, op.x)});
}

void perform(Stream stream, const SubtractRow& op) {
  NG_CHECK(same_shape(op.y, op.x) && op.row.cols == op.x.cols, op.y.rows, op.row.cols, op.x.cols);
  constexpr std::string_view kName = SubtractRow::kName;
  for_each_place(
      stream, op.y.rows, op.y.cols,
      SubtractEach{target_of(kName, op.y), source_of(kName, op.x), source_of(kName, op.row)});
}

void perform(Stream stream, const AddSum& op, const Scratch& scratch) {
  add_sum<false>(stream, AddSum::kName, op.x, op.sum, scratch);
}

void perform(Stream stream, const AddSumOfSquares& op, const Scratch& scratch) {
  add_sum<true>(stream, AddSumOfSquares::kName, op.x, op.sum, scratch);
}

void perform(Stream stream, const AddNonfinite& op) {
  for_each_place(
      stream, op.x.rows, op.x.cols,
      CountNonfinite{stored_source(op.x), reinterpret_cast<unsigned long long*>(op.count)});
}

}  // namespace ng::cuda
