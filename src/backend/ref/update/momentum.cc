#include "backend/ref/update/momentum.h"

#include "backend/ref/number.h"

namespace ng::ref {
void perform(const MoveBlockMoment& op) {
  NG_CHECK(op.moment.rows == op.blocks.blocks() && op.moment.cols == 1, op.moment.rows);
  NG_CHECK(op.grad.rows == op.blocks.rows(), op.grad.rows, op.blocks.rows());
  if (is_skipped(op.control)) return;
  const Reader grad(op.grad), moment(op.moment);
  const Writer moved(op.moment);
  for (int64_t block = 0; block < op.moment.rows; ++block) {
    const RowBlocks::Range rows = op.blocks.rows_of(block);
    double sum = 0;
    for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
      double of_row = 0;
      for (int64_t c = 0; c < op.grad.cols; ++c) {
        const float g = grad(r, c) * grad_scale_of(op.control);
        of_row += static_cast<double>(g) * g;
      }
      sum += of_row;
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(rows.count * op.grad.cols));
    moved.put(block, 0, op.beta2 * moment(block, 0) + (1 - op.beta2) * mean);
  }
}

void perform(const MoveMomentum& op) {
  NG_CHECK(same_shape(op.sum, op.grad) && same_shape(op.ahead, op.grad), op.sum.rows, op.sum.cols,
           op.grad.rows, op.grad.cols);
  NG_CHECK(same_shape(op.momentum, op.grad), op.momentum.rows, op.momentum.cols);
  if (is_skipped(op.control)) return;
  const Reader momentum(op.momentum), grad(op.grad);
  const Writer sums(op.sum), ahead(op.ahead);
  for (int64_t r = 0; r < op.grad.rows; ++r)
    for (int64_t c = 0; c < op.grad.cols; ++c) {
      const float g = grad(r, c) * grad_scale_of(op.control);
      const float sum = op.mu * momentum(r, c) + g;
      sums.put(r, c, sum);
      ahead.put(r, c, g + op.mu * sum);
    }
}

}  // namespace ng::ref
