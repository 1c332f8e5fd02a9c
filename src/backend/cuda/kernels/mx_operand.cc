#include "backend/cuda/kernels/mx_operand.h"

#include "backend/cuda/kernels/operand_tiles.h"

namespace ng::cuda {
namespace {

struct MxGroups {
  MxJob job;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return job.from; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return job.stats; }
  __device__ void operator()(const GroupPlace& of, int lane, const float (&x)[kMostHadamardBlocks],
                             CastCounts& counts) const {
    const OperandGroups& from = job.from;
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      if (b >= from.blocks()) break;
      const int64_t place = of.at(b, lane);
      const MxCode made = put_block(job.cast, job.y, x[b], from.draw_row(of.row, place),
                                    from.draw_col(of.row, place), from.whole_cols,
                                    (of.row * from.k_padded + place) / kMxBlock);
      if (job.stats == nullptr || place >= from.k) continue;
      counts.take_nonfinite(x[b]);
      if (made.scale != kE8m0NanCode)
        counts.take_rounded(x[b], made.scaled, job.cast.range.max,
                            is_zero_code(job.cast.element, made.code));
    }
  }
};

}  // namespace

void prepare_mx(Stream stream, const MxJob& job) { for_each_group(stream, MxGroups{job}); }

bool prepare_mx_both(Stream stream, const MxJob& straight, const MxJob& turned) {
  return for_both_groups(stream, MxGroups{straight}, MxGroups{turned});
}

}  // namespace ng::cuda
