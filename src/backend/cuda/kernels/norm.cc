// RMSNorm and LayerNorm, a warp for each row or part of one: statistics in FP64, values in FP32 as
// in `ref`.
#include <cmath>

#include "backend/cuda/kernels/column_sums.h"
#include "backend/cuda/kernels/largest.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/norm_parts.h"

namespace ng::cuda {
namespace {

/// The parts of all rows, of `size` values each. [backend/norm_parts.h]
struct PartsOfRows {
  Divisor per_row;
  int64_t size = 0;

  struct At {
    int64_t row, first;
  };
  /// Where part `i` of all begins.
  [[nodiscard]] __device__ At at(int64_t i) const {
    const auto [row, part] = per_row.split(i);
    return {row, part * size};
  }
};

/// Mean and 1/standard deviation of a part; RMSNorm takes the mean for 0.
struct RowStatistics {
  float mean = 0, rstd = 0;
};

/// Of a part, in each lane of its warp.
__device__ inline RowStatistics statistics_of(NormKind kind, const Source& x, float eps,
                                              const PartsOfRows& parts, int64_t i, int lane) {
  const auto [row, first] = parts.at(i);
  const auto n = static_cast<double>(parts.size);
  double mean = 0;
  if (kind == NormKind::layer) {
    for (int64_t c = lane; c < parts.size; c += kWarp) mean += x(row, first + c);
    mean = sum_of_warp(mean) / n;
  }
  double squares = 0;
  for (int64_t c = lane; c < parts.size; c += kWarp) {
    const double d = x(row, first + c) - mean;
    squares += d * d;
  }
  squares = sum_of_warp(squares);
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(squares / n + eps))};
}

struct NormPart {
  NormKind kind;
  PartsOfRows parts;
  Target y;
  Source x, gain, bias;
  float eps;
  AmaxPlace amax;
  __device__ void operator()(int64_t i, int lane) const {
    const auto [row, first] = parts.at(i);
    const RowStatistics s = statistics_of(kind, x, eps, parts, i, lane);
    Largest largest;
    for (int64_t c = lane; c < parts.size; c += kWarp) {
      float value = (x(row, first + c) - s.mean) * s.rstd * gain(0, c);
      if (bias.rows > 0) value += bias(0, c);
      y.put(row, first + c, value);
      largest.take(value);
    }
    amax.put(largest, lane);
  }
};

struct StatisticsOfPart {
  NormKind kind;
  PartsOfRows parts;
  Source x;
  float eps;
  RowStatistics* statistics;
  __device__ void operator()(int64_t i, int lane) const {
    const RowStatistics s = statistics_of(kind, x, eps, parts, i, lane);
    if (lane == 0) statistics[i] = s;
  }
};

/// dgain and dbias.
struct GainColumn {
  PartsOfRows parts;
  Target dgain, dbias;
  Source dy, x;
  const RowStatistics* statistics;
  [[nodiscard]] __device__ ColumnSums<2> of(int64_t i, int64_t c) const {
    const auto [row, first] = parts.at(i);
    const double d = dy(row, first + c);
    return {{d * ((x(row, first + c) - statistics[i].mean) * statistics[i].rstd), d}};
  }
  __device__ void put(int64_t c, const ColumnSums<2>& total) const {
    dgain.add(0, c, static_cast<float>(total.of[0]));
    if (dbias.rows > 0) dbias.add(0, c, static_cast<float>(total.of[1]));
  }
};

struct NormBackwardPart {
  NormKind kind;
  PartsOfRows parts;
  Target dx;
  Source dresidual, dy, x, gain;
  const RowStatistics* statistics;
  AmaxPlace amax;
  __device__ void operator()(int64_t i, int lane) const {
    const auto [row, first] = parts.at(i);
    const RowStatistics s = statistics[i];
    double g_sum = 0, gh_sum = 0;
    for (int64_t c = lane; c < parts.size; c += kWarp) {
      const float g = dy(row, first + c) * gain(0, c);
      if (kind == NormKind::layer) g_sum += g;
      gh_sum += static_cast<double>(g) * ((x(row, first + c) - s.mean) * s.rstd);
    }
    const auto n = static_cast<double>(parts.size);
    const auto g_mean = static_cast<float>(sum_of_warp(g_sum) / n);
    const auto gh_mean = static_cast<float>(sum_of_warp(gh_sum) / n);
    Largest largest;
    for (int64_t c = lane; c < parts.size; c += kWarp) {
      const float h = (x(row, first + c) - s.mean) * s.rstd;
      float value = s.rstd * (dy(row, first + c) * gain(0, c) - g_mean - h * gh_mean);
      if (dresidual.rows > 0) value = dresidual(row, first + c) + value;
      dx.put(row, first + c, value);
      largest.take(value);
    }
    amax.put(largest, lane);
  }
};

}  // namespace

void perform(Stream stream, const Norm& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.kind == NormKind::layer || op.bias.rows == 0);
  const Target y = target_of("norm", op.y);
  const PartsOfRows parts{Divisor(norm_parts(op)), op.gain.cols};
  const NormPart part{op.kind,
                      parts,
                      y,
                      source_of("norm", op.x, op.y),
                      source_of("norm", op.gain, op.y),
                      source_of("norm", op.bias, op.y),
                      op.eps,
                      amax_place(stream, y, op.amax)};
  for_each_row(stream, op.y.rows * parts.per_row.by(), part);
}

void perform(Stream stream, const NormBackward& op, const Scratch& scratch) {
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.dresidual.rows == 0 || same_shape(op.dresidual, op.x), op.dresidual.rows,
           op.dresidual.cols);
  NG_CHECK(op.kind == NormKind::layer || op.dbias.rows == 0);
  constexpr std::string_view kName = NormBackward::kName;
  const PartsOfRows parts{Divisor(norm_parts(op)), op.gain.cols};
  const int64_t count = op.x.rows * parts.per_row.by();
  if (parts.per_row.by() > 1 &&
      static_cast<size_t>(count) * sizeof(RowStatistics) > scratch.bytes / 2) {
    for (int64_t i = 0; i < parts.per_row.by(); ++i) perform(stream, part_of(op, i), scratch);
    return;
  }
  auto* statistics = scratch.take<RowStatistics>(kName, count);
  const Source dy = source_of(kName, op.dy, op.dx), x = source_of(kName, op.x, op.dx);
  const Target dx = target_of(kName, op.dx);
  for_each_row(stream, count, StatisticsOfPart{op.kind, parts, x, op.eps, statistics});
  // Before dx is written, whose memory may be dy's.
  sum_columns<2>(
      stream, kName, count, parts.size,
      GainColumn{parts, target_of(kName, op.dgain), target_of(kName, op.dbias), dy, x, statistics},
      scratch.behind<RowStatistics>(count));
  for_each_row(stream, count,
               NormBackwardPart{op.kind, parts, dx, source_of(kName, op.dresidual, op.dx), dy, x,
                                source_of(kName, op.gain, op.dx), statistics,
                                amax_place(stream, dx, op.amax)});
}

}  // namespace ng::cuda
