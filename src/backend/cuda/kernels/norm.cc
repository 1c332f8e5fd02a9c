// RMSNorm and LayerNorm, a warp for each row: statistics in FP64, values in FP32 as in `ref`.
#include <cmath>

#include "backend/cuda/kernels/column_sums.h"
#include "backend/cuda/kernels/largest.h"
#include "backend/cuda/kernels/perform.h"

namespace ng::cuda {
namespace {

/// Mean and 1/standard deviation of one row; RMSNorm takes the mean for 0.
struct RowStatistics {
  float mean = 0, rstd = 0;
};

/// Of a row, in each lane of its warp.
__device__ inline RowStatistics statistics_of(NormKind kind, const Source& x, float eps,
                                              int64_t row, int lane) {
  const auto n = static_cast<double>(x.cols);
  double mean = 0;
  if (kind == NormKind::layer) {
    for (int64_t c = lane; c < x.cols; c += kWarp) mean += x(row, c);
    mean = sum_of_warp(mean) / n;
  }
  double squares = 0;
  for (int64_t c = lane; c < x.cols; c += kWarp) {
    const double d = x(row, c) - mean;
    squares += d * d;
  }
  squares = sum_of_warp(squares);
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(squares / n + eps))};
}

struct NormRow {
  NormKind kind;
  Target y;
  Source x, gain, bias;
  float eps;
  AmaxPlace amax;
  __device__ void operator()(int64_t row, int lane) const {
    const RowStatistics s = statistics_of(kind, x, eps, row, lane);
    Largest largest;
    for (int64_t c = lane; c < x.cols; c += kWarp) {
      float value = (x(row, c) - s.mean) * s.rstd * gain(0, c);
      if (bias.rows > 0) value += bias(0, c);
      y.put(row, c, value);
      largest.take(value);
    }
    amax.put(largest, lane);
  }
};

struct StatisticsRow {
  NormKind kind;
  Source x;
  float eps;
  RowStatistics* statistics;
  __device__ void operator()(int64_t row, int lane) const {
    const RowStatistics s = statistics_of(kind, x, eps, row, lane);
    if (lane == 0) statistics[row] = s;
  }
};

/// dgain and dbias.
struct GainColumn {
  Target dgain, dbias;
  Source dy, x;
  const RowStatistics* statistics;
  [[nodiscard]] __device__ ColumnSums<2> of(int64_t t, int64_t c) const {
    const double d = dy(t, c);
    return {{d * ((x(t, c) - statistics[t].mean) * statistics[t].rstd), d}};
  }
  __device__ void put(int64_t c, const ColumnSums<2>& total) const {
    dgain.add(0, c, static_cast<float>(total.of[0]));
    if (dbias.rows > 0) dbias.add(0, c, static_cast<float>(total.of[1]));
  }
};

struct NormBackwardRow {
  NormKind kind;
  Target dx;
  Source dresidual, dy, x, gain;
  const RowStatistics* statistics;
  AmaxPlace amax;
  __device__ void operator()(int64_t row, int lane) const {
    const RowStatistics s = statistics[row];
    double g_sum = 0, gh_sum = 0;
    for (int64_t c = lane; c < x.cols; c += kWarp) {
      const float g = dy(row, c) * gain(0, c);
      if (kind == NormKind::layer) g_sum += g;
      gh_sum += static_cast<double>(g) * ((x(row, c) - s.mean) * s.rstd);
    }
    const auto n = static_cast<double>(x.cols);
    const auto g_mean = static_cast<float>(sum_of_warp(g_sum) / n);
    const auto gh_mean = static_cast<float>(sum_of_warp(gh_sum) / n);
    Largest largest;
    for (int64_t c = lane; c < x.cols; c += kWarp) {
      const float h = (x(row, c) - s.mean) * s.rstd;
      float value = s.rstd * (dy(row, c) * gain(0, c) - g_mean - h * gh_mean);
      if (dresidual.rows > 0) value = dresidual(row, c) + value;
      dx.put(row, c, value);
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
  const NormRow row{op.kind,
                    y,
                    source_of("norm", op.x, op.y),
                    source_of("norm", op.gain, op.y),
                    source_of("norm", op.bias, op.y),
                    op.eps,
                    amax_place(stream, y, op.amax)};
  for_each_row(stream, op.y.rows, row);
}

void perform(Stream stream, const NormBackward& op, const Scratch& scratch) {
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.dresidual.rows == 0 || same_shape(op.dresidual, op.x), op.dresidual.rows,
           op.dresidual.cols);
  NG_CHECK(op.kind == NormKind::layer || op.dbias.rows == 0);
  constexpr std::string_view kName = NormBackward::kName;
  auto* statistics = scratch.take<RowStatistics>(kName, op.x.rows);
  const Source dy = source_of(kName, op.dy, op.dx), x = source_of(kName, op.x, op.dx);
  const Target dx = target_of(kName, op.dx);
  const NormBackwardRow row{op.kind,
                            dx,
                            source_of(kName, op.dresidual, op.dx),
                            dy,
                            x,
                            source_of(kName, op.gain, op.dx),
                            statistics,
                            amax_place(stream, dx, op.amax)};
  for_each_row(stream, x.rows, StatisticsRow{op.kind, x, op.eps, statistics});
  // Before dx is written, whose memory may be dy's.
  sum_columns<2>(
      stream, kName, x.rows, x.cols,
      GainColumn{target_of(kName, op.dgain), target_of(kName, op.dbias), dy, x, statistics},
      scratch.behind<RowStatistics>(x.rows));
  for_each_row(stream, x.rows, row);
}

}  // namespace ng::cuda
