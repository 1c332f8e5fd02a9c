// Moments that move before the weights do. The bits of `ref`. [update_operations.h]
#include <algorithm>

#include "backend/cuda/kernels/coded.h"

namespace ng::cuda {
namespace {

__device__ inline float grad_scale(const StepControl* control) {
  return control == nullptr ? 1.0f : control->grad_scale;
}

/// Σ g² of a row, one after the other, in FP64: a thread each.
struct SquaresOfRow {
  StoredSource grad;
  int64_t cols;
  const StepControl* control;
  double* squares;
  __device__ void operator()(int64_t row, int64_t /* col */) const {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const float g = grad(row, c) * grad_scale(control);
      sum += static_cast<double>(g) * g;
    }
    squares[row] = sum;
  }
};

/// A block's rows in their order.
struct MoveBlock {
  Target moment;
  const double* squares;
  RowBlocks blocks;
  int64_t cols;
  float beta2;
  const StepControl* control;
  __device__ void operator()(int64_t block, int64_t /* col */) const {
    if (skips(control)) return;
    int64_t first = 0, count = 0, left = block;
    for (int i = 0; i < 3 && count == 0; ++i) {
      const RowBlocks::Section s = blocks.sections[i];
      const int64_t of_section = s.rows / s.block_rows;
      if (left < of_section) {
        first += left * s.block_rows;
        count = s.block_rows;
      } else {
        left -= of_section;
        first += s.rows;
      }
    }
    double sum = 0;
    for (int64_t row = first; row < first + count; ++row) sum += squares[row];
    const auto mean = static_cast<float>(sum / static_cast<double>(count * cols));
    moment.put(block, 0, beta2 * moment(block, 0) + (1 - beta2) * mean);
  }
};

/// Of the momentum's rows, which stand for those from `first_row` on.
struct MoveEach {
  Target sum, ahead;
  StoredSource momentum, grad;
  float mu;
  const StepControl* control;
  int64_t first_row;
  __device__ void operator()(int64_t i, int64_t col) const {
    if (skips(control)) return;
    const int64_t row = first_row + i;
    const float g = grad(row, col) * grad_scale(control);
    const float moved = mu * momentum(i, col) + g;
    sum.put(row, col, moved);
    ahead.put(row, col, g + mu * moved);
  }
};

}  // namespace

void perform(Stream stream, const MoveBlockMoment& op, const Scratch& scratch) {
  NG_CHECK(op.moment.rows == op.blocks.blocks() && op.moment.cols == 1, op.moment.rows);
  NG_CHECK(op.grad.rows == op.blocks.rows(), op.grad.rows, op.blocks.rows());
  constexpr std::string_view kName = MoveBlockMoment::kName;
  auto* squares = scratch.take<double>(kName, op.grad.rows);
  for_each_place(stream, op.grad.rows, 1,
                 SquaresOfRow{stored_source(op.grad), op.grad.cols, op.control, squares});
  for_each_place(stream, op.moment.rows, 1,
                 MoveBlock{target_of(kName, op.moment), squares, op.blocks, op.grad.cols, op.beta2,
                           op.control});
}

void perform(Stream stream, const MoveMomentum& op, const Scratch& scratch) {
  NG_CHECK(same_shape(op.sum, op.grad) && same_shape(op.ahead, op.grad), op.sum.rows, op.sum.cols,
           op.grad.rows, op.grad.cols);
  NG_CHECK(same_shape(op.momentum, op.grad), op.momentum.rows, op.momentum.cols);
  constexpr std::string_view kName = MoveMomentum::kName;
  const auto move = [&](const ConstView& momentum, int64_t first) {
    for_each_place(
        stream, momentum.rows, op.grad.cols,
        MoveEach{target_of(kName, op.sum), target_of(kName, op.ahead), stored_source(momentum),
                 stored_source(op.grad), op.mu, op.control, first});
  };
  if (!is_coded(op.momentum)) return move(op.momentum, 0);
  const int64_t rows = op.grad.rows, cols = op.grad.cols;
  const int64_t count = rows_in(scratch, cols, rows);
  auto* strip = scratch.take<float>(kName, count * cols);
  for (int64_t first = 0; first < rows; first += count) {
    const int64_t some = std::min(count, rows - first);
    read_coded(stream, op.momentum, {first, some}, strip, op.control);
    move(ConstView(strip, some, cols, cols), first);
  }
}

}  // namespace ng::cuda
