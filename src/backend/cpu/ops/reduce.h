// Reductions of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

/// Blocks of rows whose column sums are taken one after another and then folded in pairs by block
/// index. The borders depend on the shape only.
struct ColumnSumBlocks {
  int64_t rows_per_block = 0;
  int64_t blocks = 0;
  int64_t pitch = 0;  ///< floats from one block's sums to the next; a multiple of 16
};

/// For `sums` sums per column of `rows` rows: fits into `bytes` of scratch.
[[nodiscard]] ColumnSumBlocks column_sum_blocks(int64_t rows, int64_t cols, int sums, size_t bytes);

/// sum[c] += the blocks' sums of column c, folded in pairs. Overwrites `partial`.
void fold_column_sums(Threads threads, float* sum, float* partial, const ColumnSumBlocks& cut,
                      int64_t cols);

void perform(Workspace& workspace, const AddColumnSums& op);
void perform(Workspace& workspace, const FindColumnMeans& op);
void perform(Workspace& workspace, const SubtractRow& op);
void perform(Workspace& workspace, const AddSum& op);
void perform(Workspace& workspace, const AddSumOfSquares& op);
void perform(Workspace& workspace, const AddNonfinite& op);

}  // namespace ng::cpu
