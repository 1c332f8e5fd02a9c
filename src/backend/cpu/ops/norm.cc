// Statistics of a row are FP32 sums by the 16-lane tree; gradients of gain and bias are summed over
// fixed blocks of rows, rows ascending, and folded in pairs.
#include "backend/cpu/ops/norm.h"

#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/ops/stored_amax.h"
#include "backend/cpu/types.h"
#include "backend/norm_parts.h"

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

template <class Stored>
HWY_INLINE Statistics RmsStatistics(In<Stored> in, const Stored* x, int64_t cols, float eps) {
  const float squares = TreeSum(cols, [=](int64_t i, auto left) HWY_ATTR {
    const F16 v = in.Read(x + i, left);
    return Mul(v, v);
  });
  return {0.0f, InverseDeviation(squares, cols, eps)};
}

template <class Stored>
HWY_INLINE Statistics LayerStatistics(In<Stored> in, const Stored* x, int64_t cols, float eps) {
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

// Gains and biases are what all rows read, as_read() below.
void RmsNormRows(View y, ConstView x, const float* gain, float eps) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    const auto from = in.RowsOf(x);
    for (int64_t r = 0; r < y.rows; ++r) {
      const F16 rstd = Set16(RmsStatistics(in, from.row(r), x.cols, eps).rstd);
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 normal = Mul(in.Read(from.row(r) + i, left), rstd);
        in.Write(Mul(normal, Load16(gain + i, left)), to.row(r) + i, left);
      });
    }
  });
}

void LayerNormRows(View y, ConstView x, const float* gain, const float* bias, float eps) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    const auto from = in.RowsOf(x);
    for (int64_t r = 0; r < y.rows; ++r) {
      const Statistics statistics = LayerStatistics(in, from.row(r), x.cols, eps);
      const F16 mean = Set16(statistics.mean), rstd = Set16(statistics.rstd);
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 normal = Mul(Sub(in.Read(from.row(r) + i, left), mean), rstd);
        F16 v = Mul(normal, Load16(gain + i, left));
        if (bias != nullptr) v = Add(v, Load16(bias + i, left));
        in.Write(v, to.row(r) + i, left);
      });
    }
  });
}

// Of one row; dresidual may be null, and dx itself.
template <class Stored>
struct BackwardRowOf {
  Stored* dx;
  const Stored* dresidual;
  const Stored* dy;
  const Stored* x;
  const float* gain;
  int64_t cols;
  float eps;
};

// With n = (x - mean) · rstd and d = dy · gain:
// dx = dresidual + rstd · (d - mean(d) - n · mean(d · n)); RMSNorm has no mean(d).
template <bool kCentred, class Stored>
HWY_INLINE void BackwardRow(In<Stored> in, const BackwardRowOf<Stored>& row, float* dgain,
                            float* dbias) {
  const int64_t cols = row.cols;
  Statistics statistics{};
  if constexpr (kCentred)
    statistics = LayerStatistics(in, row.x, cols, row.eps);
  else
    statistics = RmsStatistics(in, row.x, cols, row.eps);
  const F16 mean = Set16(statistics.mean), rstd = Set16(statistics.rstd);
  const auto normal = [&](int64_t i, auto left)
                          HWY_ATTR { return Mul(Sub(in.Read(row.x + i, left), mean), rstd); };
  const auto slope = [&](int64_t i, auto left) HWY_ATTR {
    return Mul(in.Read(row.dy + i, left), Load16(row.gain + i, left));
  };
  const float count = static_cast<float>(cols);
  const float along = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
    const F16 d = in.Read(row.dy + i, left), n = normal(i, left);
    Store16(Fma(d, n, Load16(dgain + i, left)), dgain + i, left);
    return Mul(slope(i, left), n);
  });
  F16 level = Zero16();
  if constexpr (kCentred) {
    const float sum = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
      if (dbias != nullptr) {
        const F16 d = in.Read(row.dy + i, left);
        Store16(Add(d, Load16(dbias + i, left)), dbias + i, left);
      }
      return slope(i, left);
    });
    level = Set16(sum / count);
  }
  const F16 tilt = Set16(along / count);
  ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
    F16 d = slope(i, left);
    if constexpr (kCentred) d = Sub(d, level);
    d = Mul(Sub(d, Mul(normal(i, left), tilt)), rstd);
    if (row.dresidual != nullptr) d = Add(in.Read(row.dresidual + i, left), d);
    in.Write(d, row.dx + i, left);
  });
}

// Rows [first, first + rows); dgain and dbias are this block's own sums.
void BackwardRows(const NormBackward& op, const float* gain, int64_t first, int64_t rows,
                  float* dgain, float* dbias) {
  std::fill_n(dgain, op.x.cols, 0.0f);
  if (dbias != nullptr) std::fill_n(dbias, op.x.cols, 0.0f);
  WithStored(op.dx, [&](auto in) HWY_ATTR {
    const auto dx = in.RowsOf(op.dx);
    const auto dresidual = in.RowsOf(op.dresidual), dy = in.RowsOf(op.dy), x = in.RowsOf(op.x);
    for (int64_t r = first; r < first + rows; ++r) {
      const auto* residual = dresidual.rows > 0 ? dresidual.row(r) : nullptr;
      using Stored = std::remove_pointer_t<decltype(dx.row(r))>;
      const BackwardRowOf<Stored> row{dx.row(r), residual, dy.row(r), x.row(r),
                                      gain,      x.cols,   op.eps};
      if (op.kind == NormKind::layer)
        BackwardRow<true>(in, row, dgain, dbias);
      else
        BackwardRow<false>(in, row, dgain, dbias);
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

// A gain or a bias (without rows: null) as all rows of an operation with output `out` read it: in
// BF16 rounded into `room`, so that not every row has to.
const float* as_read(const ConstView& values, const ConstView& out, std::span<std::byte> room) {
  if (values.rows == 0) return nullptr;
  NG_CHECK(values.cols == out.cols, values.cols, out.cols);
  const float* in_memory = values.as<float>().data;
  if (!out.is(bf16_format())) return in_memory;
  NG_CHECK(values.bytes() <= room.size(), values.cols, room.size());
  float* rounded = reinterpret_cast<float*>(room.data());
  HWY_DYNAMIC_DISPATCH(RoundRow)(in_memory, values.cols, rounded);
  return rounded;
}

}  // namespace

void perform(Workspace& workspace, const Norm& op) {
  require_one_type(op.kName, {op.y, op.x});
  require_fp32(op.kName, {op.gain, op.bias});
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.kind == NormKind::layer || op.bias.rows == 0, op.bias.rows);
  if (const int64_t parts = norm_parts(op); parts > 1) {
    for (int64_t i = 0; i < parts; ++i) perform(workspace, part_of(op, i));
    return;
  }
  const std::span<std::byte> room = workspace.shared();
  const float* gain = as_read(op.gain, op.y, room.first(room.size() / 2));
  const float* bias = as_read(op.bias, op.y, room.subspan(room.size() / 2));
  const AmaxOfBlocks amax(op.amax);
  for_row_blocks(workspace.threads(), op.x.rows, op.x.cols, [&](int64_t first, int64_t rows) {
    const View y = op.y.slice(first, rows);
    const ConstView x = op.x.slice(first, rows);
    if (op.kind == NormKind::layer)
      HWY_DYNAMIC_DISPATCH(LayerNormRows)(y, x, gain, bias, op.eps);
    else
      HWY_DYNAMIC_DISPATCH(RmsNormRows)(y, x, gain, op.eps);
    amax.note(y);
  });
}

void perform(Workspace& workspace, const NormBackward& op) {
  require_one_type(op.kName, {op.dx, op.dresidual, op.dy, op.x});
  require_fp32(op.kName, {op.dgain, op.dbias, op.gain});
  const int64_t rows = op.x.rows, cols = op.x.cols;
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, rows, cols);
  NG_CHECK(op.dresidual.rows == 0 || same_shape(op.dresidual, op.x), op.dresidual.rows, rows);
  NG_CHECK(op.kind == NormKind::layer || op.dbias.rows == 0, op.dbias.rows);
  if (const int64_t parts = norm_parts(op); parts > 1) {
    for (int64_t i = 0; i < parts; ++i) perform(workspace, part_of(op, i));
    return;
  }
  const AmaxOfBlocks amax(op.amax);
  if (rows == 0) return;
  const ColumnSumBlocks cut = column_sum_blocks(rows, cols, 2, kSharedScratchBytes);
  float* dgain = reinterpret_cast<float*>(workspace.shared().data());
  float* dbias = op.dbias.rows > 0 ? dgain + cut.blocks * cut.pitch : nullptr;
  parallel_for(workspace.threads(), cut.blocks, [&](int64_t b, int worker) {
    const float* gain = as_read(op.gain, op.dx, workspace.worker(worker));
    const int64_t first = b * cut.rows_per_block;
    const int64_t count = std::min(cut.rows_per_block, rows - first);
    float* bias = dbias != nullptr ? dbias + b * cut.pitch : nullptr;
    HWY_DYNAMIC_DISPATCH(BackwardRows)(op, gain, first, count, dgain + b * cut.pitch, bias);
    amax.note(op.dx.slice(first, count));
  });
  const Threads threads = workspace.threads();
  fold_column_sums(threads, op.dgain.as<float>().data, dgain, cut, cols);
  if (dbias != nullptr) fold_column_sums(threads, op.dbias.as<float>().data, dbias, cut, cols);
}

}  // namespace ng::cpu
#endif
