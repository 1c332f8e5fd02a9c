// Means of columns, and rows without them.
#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/types.h"
#include "math/round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/center.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// sum[c] = Σ x[r][c], r ascending; room for whole vectors. Four rows at a time, so that sums are
// read and written once for four values, and rows to come are fetched: parts of rows are too short
// for the hardware to see where they go on.
void ColumnTotals(double* sum, ConstView x) {
  constexpr int64_t kRows = 4, kAhead = 8;
  std::fill_n(sum, (x.cols + kLanes - 1) / kLanes * kLanes, 0.0);
  WithStored(x, [&](auto in) HWY_ATTR {
    const auto from = in.RowsOf(x);
    int64_t r = 0;
    for (; r + kRows <= x.rows; r += kRows)
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        D16 total = Load16(sum + i);
        for (int64_t j = 0; j < kRows; ++j) {
          hwy::Prefetch(from.row(r + kAhead + j) + i);
          total = Add(total, Doubles(from.row(r + j) + i, left));
        }
        Store16(total, sum + i);
      });
    for (; r < x.rows; ++r)
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        Store16(Add(Load16(sum + i), Doubles(from.row(r) + i, left)), sum + i);
      });
  });
}

void SubtractRows(View y, ConstView x, const float* row) {
  const auto to = y.as<float>();
  WithStored(x, [&](auto in) HWY_ATTR {
    const auto from = in.RowsOf(x);
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        Store16(Sub(Load16(from.row(r) + i, left), Load16(row + i, left)), to.row(r) + i, left);
      });
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(ColumnTotals);
HWY_EXPORT(SubtractRows);

void perform(Workspace& workspace, const FindColumnMeans& op) {
  require_fp32(op.kName, {op.mean, op.in_bf16});
  require_values(op.kName, {op.x});
  NG_CHECK(op.mean.rows == 1 && op.mean.cols == op.x.cols, op.mean.rows, op.mean.cols, op.x.cols);
  NG_CHECK(same_shape(op.in_bf16, op.mean), op.in_bf16.rows, op.in_bf16.cols);
  constexpr int64_t kColumns = 256;  // summed by one worker
  float* const mean = op.mean.as<float>().data;
  float* const in_bf16 = op.in_bf16.as<float>().data;
  parallel_for(workspace.threads(), (op.x.cols + kColumns - 1) / kColumns, [&](int64_t item, int) {
    alignas(64) std::array<double, kColumns> sums;
    const int64_t first = item * kColumns, count = std::min(kColumns, op.x.cols - first);
    HWY_DYNAMIC_DISPATCH(ColumnTotals)(sums.data(), op.x.columns(first, count));
    for (int64_t c = 0; c < count; ++c) {
      const double total = sums[static_cast<size_t>(c)];
      mean[first + c] = static_cast<float>(total / static_cast<double>(op.x.rows));
      in_bf16[first + c] = round_to_bf16(mean[first + c]);
    }
  });
}

void perform(Workspace& workspace, const SubtractRow& op) {
  require_fp32(op.kName, {op.y, op.row});
  require_values(op.kName, {op.x});
  NG_CHECK(op.y.rows == op.x.rows && op.y.cols == op.x.cols && op.row.cols == op.x.cols, op.y.rows,
           op.row.cols, op.x.cols);
  constexpr int64_t kRows = 16;
  const float* const row = op.row.as<float>().data;
  parallel_for(workspace.threads(), (op.x.rows + kRows - 1) / kRows, [&](int64_t item, int) {
    const int64_t first = item * kRows, count = std::min(kRows, op.x.rows - first);
    HWY_DYNAMIC_DISPATCH(SubtractRows)(op.y.slice(first, count), op.x.slice(first, count), row);
  });
}

}  // namespace ng::cpu
#endif
