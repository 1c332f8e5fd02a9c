// Cutting whole-tensor operations into blocks that do not depend on the thread count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/threads.h"
#include "tensor/view.h"

namespace ng::cpu {

/// Elements of one block: 64 KiB of FP32, half of BF16, so that a few views' blocks stay in a
/// core's cache.
constexpr int64_t kBlockElements = 16384;

/// A contiguous view as one long row.
template <class Byte>
BasicView<Byte> flattened(const BasicView<Byte>& v) {
  return {v.data, *v.element, 1, v.size(), v.size()};
}

/// Cuts views of one shape into blocks of about kBlockElements and calls body(block of each...).
/// Where all are contiguous, rows run together. For elementwise operations: blocks may cut rows.
template <class Body, class... Bytes>
void for_blocks(Threads threads, const Body& body, BasicView<Bytes>... views) {
  const int64_t rows = std::max({views.rows...}), cols = std::max({views.cols...});
  NG_CHECK(((views.rows == rows && views.cols == cols) && ...), rows, cols);
  if (rows == 0 || cols == 0) return;
  if (rows > 1 && (views.contiguous() && ...))
    return for_blocks(threads, body, flattened(views)...);
  const int64_t block_cols = std::min(cols, kBlockElements);
  const int64_t block_rows = std::max<int64_t>(1, kBlockElements / cols);
  const int64_t across = (cols + block_cols - 1) / block_cols;
  const int64_t down = (rows + block_rows - 1) / block_rows;
  parallel_for(threads, across * down, [&](int64_t item, int) {
    const int64_t row = item / across * block_rows, col = item % across * block_cols;
    const int64_t r = std::min(block_rows, rows - row), c = std::min(block_cols, cols - col);
    body(views.part(row, r, col, c)...);
  });
}

/// Calls body(first row, number of rows) for blocks of whole rows of about kBlockElements.
template <class Body>
void for_row_blocks(Threads threads, int64_t rows, int64_t cols, const Body& body) {
  const int64_t step = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, cols));
  parallel_for(threads, (rows + step - 1) / step,
               [&](int64_t item, int) { body(item * step, std::min(step, rows - item * step)); });
}

}  // namespace ng::cpu
