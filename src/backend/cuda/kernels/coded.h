// Moments whose codes are no elements under scales, or which lie in two parts: rows of them in
// FP32, and back. The bits of `ref`. [linear.md 9]
#pragma once

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/stored.h"

namespace ng::cuda {

/// Whether a tensor is one of them, which no StoredSource reads.
[[nodiscard]] bool is_coded(const ConstView& x);

/// Values of a tensor, or of some rows of it that lie side by side in FP32.
struct RowValues {
  StoredSource source{};
  const float* strip = nullptr;
  int64_t strip_row = 0, cols = 0;
  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    return strip != nullptr ? strip[(row - strip_row) * cols + col] : source(row, col);
  }
};

/// Some rows of a tensor.
struct RowRange {
  int64_t first = 0, count = 0;
};

/// How many of `rows` rows of FP32 the scratch has room for: one at least.
[[nodiscard]] int64_t rows_in(const Scratch& scratch, int64_t cols, int64_t rows);

/// to[rows.count][x.cols] of a coded tensor; of a step that is skipped nothing is read.
void read_coded(Stream stream, const ConstView& x, const RowRange& rows, float* to,
                const StepControl* control);

/// As store_blocks(), of a coded tensor.
void store_coded(Stream stream, const BlockStore& store);

}  // namespace ng::cuda
