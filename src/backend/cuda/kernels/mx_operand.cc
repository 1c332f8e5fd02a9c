#include "backend/cuda/kernels/mx_operand.h"

#include "backend/cuda/kernels/operand_tiles.h"

namespace ng::cuda {
namespace {

struct MxGroups {
  MxJob job;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return job.from; }
  __device__ void operator()(int64_t unit, int lane, const float (&x)[kMostHadamardBlocks]) const {
    const OperandGroups& from = job.from;
    const int64_t row = unit / from.groups();
    if (job.stats != nullptr && unit == 0 && lane == 0) count_values(job.stats, from.rows * from.k);
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      if (b >= from.blocks()) break;
      const int64_t place = from.at(unit, b, lane);
      const MxCode made =
          put_block(job.cast, job.y, x[b], from.draw_row(row, place), from.draw_col(row, place),
                    from.whole_cols, (row * from.k_padded + place) / kMxBlock);
      if (job.stats == nullptr || place >= from.k) continue;
      count_nonfinite(job.stats, x[b]);
      if (made.scale != kE8m0NanCode)
        count_rounded(job.stats, x[b], made.scaled, job.cast.range.max,
                      (made.code & ~job.cast.element.grid.sign_mask) == 0);
    }
  }
};

}  // namespace

void prepare_mx(Stream stream, const MxJob& job) { for_each_group(stream, MxGroups{job}); }

bool prepare_mx_both(Stream stream, const MxJob& straight, const MxJob& turned) {
  return for_both_groups(stream, MxGroups{straight}, MxGroups{turned});
}

}  // namespace ng::cuda
