// Moments that move before the weights do: contracts in backend/update_operations.h.
#include "backend/cpu/update/elements.h"
#include "backend/cpu/update/stored.h"
#include "backend/cpu/update/update.h"

namespace ng::cpu {
namespace {

struct MomentumBuffers {
  alignas(64) float grad[kStretch], scaled[kStretch], momentum[kStretch];
  StretchScratch scratch;
};
static_assert(sizeof(MomentumBuffers) <= kWorkerScratchBytes);

MomentumBuffers& buffers_of(Workspace& workspace, int worker) {
  return *reinterpret_cast<MomentumBuffers*>(workspace.worker(worker).data());
}

// The gradient of a stretch, clipped, in b.scaled.
void read_scaled(const StoredCodec& grad, const Stretch& at, float scale, MomentumBuffers& b) {
  const float* g = grad.read(at, b.grad, b.scratch);
  step_stretch(OptimizerRule::direction, {},
               {.count = at.count, .g = g, .grad_scale = scale, .u = b.scaled});
}

}  // namespace

// A block is one worker's: its rows are added in order.
void perform(Workspace& workspace, const MoveBlockMoment& op) {
  NG_CHECK(op.moment.rows == op.blocks.blocks() && op.moment.cols == 1, op.moment.rows);
  NG_CHECK(op.grad.rows == op.blocks.rows(), op.grad.rows, op.blocks.rows());
  if (is_skipped(op.control)) return;
  const StoredCodec grad(op.kName, as_stored(op.grad), {}, Purpose::moment2);
  const StretchWalk row(1, op.grad.cols, grad.unit());
  const Rows<float> moment = op.moment.as<float>();
  parallel_for(workspace.threads(), moment.rows, [&](int64_t block, int worker) {
    MomentumBuffers& b = buffers_of(workspace, worker);
    const RowBlocks::Range rows = op.blocks.rows_of(block);
    double sum = 0;
    for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
      double of_row = 0;
      for (int64_t item = 0; item < row.items(); ++item)
        row.for_item(item, [&](Stretch at) {
          at.row = r;
          read_scaled(grad, at, grad_scale_of(op.control), b);
          of_row += sum_of_squares(b.scaled, at.count);
        });
      sum += of_row;
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(rows.count * op.grad.cols));
    float& v = *moment.row(block);
    v = op.beta2 * v + (1 - op.beta2) * mean;
  });
}

void perform(Workspace& workspace, const MoveMomentum& op) {
  NG_CHECK(same_shape(op.sum, op.grad) && same_shape(op.ahead, op.grad), op.sum.rows, op.sum.cols,
           op.grad.rows, op.grad.cols);
  NG_CHECK(same_shape(op.momentum, op.grad), op.momentum.rows, op.momentum.cols);
  if (is_skipped(op.control)) return;
  StoredCodec momentum(op.kName, as_stored(op.momentum), {}, Purpose::moment1);
  StoredCodec grad(op.kName, as_stored(op.grad), {}, Purpose::moment1);
  StoredCodec* const codecs[] = {&momentum, &grad};
  bool is_flat = false;
  const StretchWalk walk = walk_through(codecs, op.grad.rows, op.grad.cols, is_flat);
  const Rows<float> sums = op.sum.as<float>(), aheads = op.ahead.as<float>();
  parallel_for(workspace.threads(), walk.items(), [&](int64_t item, int worker) {
    MomentumBuffers& b = buffers_of(workspace, worker);
    walk.for_item(item, [&](const Stretch& at) {
      const float* old = momentum.read(at, b.momentum, b.scratch);
      read_scaled(grad, at, grad_scale_of(op.control), b);
      float* const sum = sums.row(at.row) + at.col;
      add_scaled(b.scaled, old, op.mu, at.count, sum);
      add_scaled(b.scaled, sum, op.mu, at.count, aheads.row(at.row) + at.col);
    });
  });
}

}  // namespace ng::cpu
