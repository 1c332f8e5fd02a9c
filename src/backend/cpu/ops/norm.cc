// Statistics of a row are FP32 sums by the 16-lane tree; gradients of gain and bias are summed over
// fixed blocks of rows, rows ascending, and folded in pairs.
#include "backend/cpu/ops/norm.h"

#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/ops/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/norm.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// What a row is shifted and scaled by: (x - mean) · rstd. The mean of RMSNorm is 0.
struct Statistics {
  float mean;
  float rstd;
};

// 1 / sqrt(squares / cols + eps); NaN where FP32 cannot hold the sum, which 0 would hide.
HWY_INLINE float InverseDeviation(float squares, int64_t cols, float eps) {
  if (!std::isfinite(squares)) return std::numeric_limits<float>::quiet_NaN();
  return 1.0f / std::sqrt(squares / static_cast<float>(cols) + eps);
}

template <class ReadAs>
HWY_INLINE Statistics RmsStatistics(ReadAs in, const float* x, int64_t cols, float eps) {
  const float squares = TreeSum(cols, [=](int64_t i, auto left) HWY_ATTR {
    const F16 v = in.Read(x + i, left);
    return Mul(v, v);
  });
  return {0.0f, InverseDeviation(squares, cols, eps)};
}

template <class ReadAs>
HWY_INLINE Statistics LayerStatistics(ReadAs in, const float* x, int64_t cols, float eps) {
  const float sum =
      TreeSum(cols, [=](int64_t i, auto left) HWY_ATTR { return in.Read(x + i, left); });
  const float mean = sum / static_cast<float>(cols);
  const float squares = TreeSum(cols, [=](int64_t i, auto left) HWY_ATTR {
    const F16 v = Sub(in.Read(x + i, left), Set16(mean));
    const F16 square = Mul(v, v);
    if (left >= kLanes) return square;
    alignas(64) float kept[kLanes];  // the padding is not at the mean
    Store16(square, kept);
    return Load16(kept, left);
  });
  return {mean, InverseDeviation(squares, cols, eps)};
}

void RoundRow(const float* from, int64_t cols, float* to) {
  ForLanes(cols, [&](int64_t i, auto left)
                     HWY_ATTR { Store16(RoundToBf16(Load16(from + i, left)), to + i, left); });
}

void RmsNormRows(View y, ConstView x, const float* gain, float eps, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < y.rows; ++r) {
      const F16 rstd = Set16(RmsStatistics(in, x.row(r), x.cols, eps).rstd);
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 normal = Mul(in.Read(x.row(r) + i, left), rstd);
        in.Write(Mul(normal, in.Read(gain + i, left)), y.row(r) + i, left);
      });
    }
  });
}

void LayerNormRows(View y, ConstView x, const float* gain, const float* bias, float eps,
                   Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < y.rows; ++r) {
      const Statistics statistics = LayerStatistics(in, x.row(r), x.cols, eps);
      const F16 mean = Set16(statistics.mean), rstd = Set16(statistics.rstd);
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 normal = Mul(Sub(in.Read(x.row(r) + i, left), mean), rstd);
        F16 v = Mul(normal, in.Read(gain + i, left));
        if (bias != nullptr) v = Add(v, in.Read(bias + i, left));
        in.Write(v, y.row(r) + i, left);
      });
    }
  });
}

// Row r of a backward pass, with n = (x - mean) · rstd and d = dy · gain:
// dx = dresidual + rstd · (d - mean(d) - n · mean(d · n)); RMSNorm has no mean(d).
template <bool kCentred, class ReadAs>
HWY_INLINE void BackwardRow(ReadAs in, const NormBackward& args, int64_t r, float* dgain,
                            float* dbias) {
  const float* x = args.x.row(r);
  const float* dy = args.dy.row(r);
  const int64_t cols = args.x.cols;
  Statistics statistics{};
  if constexpr (kCentred)
    statistics = LayerStatistics(in, x, cols, args.eps);
  else
    statistics = RmsStatistics(in, x, cols, args.eps);
  const F16 mean = Set16(statistics.mean), rstd = Set16(statistics.rstd);
  const auto normal = [&](int64_t i, auto left)
                          HWY_ATTR { return Mul(Sub(in.Read(x + i, left), mean), rstd); };
  const auto slope = [&](int64_t i, auto left) HWY_ATTR {
    return Mul(in.Read(dy + i, left), in.Read(args.gain + i, left));
  };
  const float count = static_cast<float>(cols);
  const float along = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
    const F16 d = in.Read(dy + i, left), n = normal(i, left);
    Store16(Fma(d, n, Load16(dgain + i, left)), dgain + i, left);
    return Mul(slope(i, left), n);
  });
  F16 level = Zero16();
  if constexpr (kCentred) {
    const float sum = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
      if (dbias != nullptr) {
        const F16 d = in.Read(dy + i, left);
        Store16(Add(d, Load16(dbias + i, left)), dbias + i, left);
      }
      return slope(i, left);
    });
    level = Set16(sum / count);
  }
  const F16 tilt = Set16(along / count);
  const bool residual = args.dresidual.rows > 0;
  ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
    F16 d = slope(i, left);
    if constexpr (kCentred) d = Sub(d, level);
    d = Mul(Sub(d, Mul(normal(i, left), tilt)), rstd);
    if (residual) d = Add(in.Read(args.dresidual.row(r) + i, left), d);
    in.Write(d, args.dx.row(r) + i, left);
  });
}

// Rows [first, first + rows); dgain and dbias are this block's own sums.
void BackwardRows(const NormBackward& args, bool centred, int64_t first, int64_t rows, float* dgain,
                  float* dbias, Compute compute) {
  std::fill_n(dgain, args.x.cols, 0.0f);
  if (dbias != nullptr) std::fill_n(dbias, args.x.cols, 0.0f);
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = first; r < first + rows; ++r) {
      if (centred)
        BackwardRow<true>(in, args, r, dgain, dbias);
      else
        BackwardRow<false>(in, args, r, dgain, dbias);
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(RoundRow);
HWY_EXPORT(RmsNormRows);
HWY_EXPORT(LayerNormRows);
HWY_EXPORT(BackwardRows);

namespace {

// A gain or a bias (or null) as all rows read it: in BF16 rounded into `room`, where it fits, so
// that not every row has to.
const float* as_read(const float* values, int64_t cols, Compute compute,
                     std::span<std::byte> room) {
  const bool fits = static_cast<size_t>(cols) * sizeof(float) <= room.size();
  if (values == nullptr || compute != Compute::bf16 || !fits) return values;
  float* rounded = reinterpret_cast<float*>(room.data());
  HWY_DYNAMIC_DISPATCH(RoundRow)(values, cols, rounded);
  return rounded;
}

void norm_backward(Workspace& workspace, const NormBackward& args, bool centred, Compute compute) {
  const int64_t rows = args.x.rows, cols = args.x.cols;
  NG_CHECK(args.dx.rows == rows && args.dy.rows == rows, args.dx.rows, args.dy.rows, rows);
  NG_CHECK(args.dx.cols == cols && args.dy.cols == cols, args.dx.cols, args.dy.cols, cols);
  NG_CHECK(args.dresidual.rows == 0 || args.dresidual.rows == rows, args.dresidual.rows, rows);
  if (rows == 0) return;
  const ColumnSumBlocks cut = column_sum_blocks(rows, cols, 2, kSharedScratchBytes);
  float* dgain = reinterpret_cast<float*>(workspace.shared().data());
  float* dbias = args.dbias != nullptr ? dgain + cut.blocks * cut.pitch : nullptr;
  parallel_for(workspace.threads(), cut.blocks, [&](int64_t b, int worker) {
    NormBackward rounded = args;
    rounded.gain = as_read(args.gain, cols, compute, workspace.worker(worker));
    const int64_t first = b * cut.rows_per_block;
    const int64_t count = std::min(cut.rows_per_block, rows - first);
    float* bias = dbias != nullptr ? dbias + b * cut.pitch : nullptr;
    HWY_DYNAMIC_DISPATCH(BackwardRows)
    (rounded, centred, first, count, dgain + b * cut.pitch, bias, compute);
  });
  fold_column_sums(workspace.threads(), args.dgain, dgain, cut, cols);
  if (dbias != nullptr) fold_column_sums(workspace.threads(), args.dbias, dbias, cut, cols);
}

}  // namespace

void rms_norm(Workspace& workspace, View y, ConstView x, const float* gain, float eps,
              Compute compute) {
  NG_CHECK(y.rows == x.rows && y.cols == x.cols, y.rows, y.cols, x.rows, x.cols);
  gain = as_read(gain, x.cols, compute, workspace.shared());
  for_row_blocks(workspace.threads(), x.rows, x.cols, [&](int64_t first, int64_t rows) {
    HWY_DYNAMIC_DISPATCH(RmsNormRows)
    (y.slice(first, rows), x.slice(first, rows), gain, eps, compute);
  });
}

void layer_norm(Workspace& workspace, View y, ConstView x, const float* gain, const float* bias,
                float eps, Compute compute) {
  NG_CHECK(y.rows == x.rows && y.cols == x.cols, y.rows, y.cols, x.rows, x.cols);
  const std::span<std::byte> room = workspace.shared();
  gain = as_read(gain, x.cols, compute, room.first(room.size() / 2));
  bias = as_read(bias, x.cols, compute, room.subspan(room.size() / 2));
  for_row_blocks(workspace.threads(), x.rows, x.cols, [&](int64_t first, int64_t rows) {
    HWY_DYNAMIC_DISPATCH(LayerNormRows)
    (y.slice(first, rows), x.slice(first, rows), gain, bias, eps, compute);
  });
}

void rms_norm_backward(Workspace& workspace, const NormBackward& args, Compute compute) {
  NG_CHECK(args.dbias == nullptr);
  norm_backward(workspace, args, false, compute);
}

void layer_norm_backward(Workspace& workspace, const NormBackward& args, Compute compute) {
  norm_backward(workspace, args, true, compute);
}

}  // namespace ng::cpu
#endif
