// Where the panels and unfinished sums of one GEMM lie in the workspace.
#pragma once

#include <cstring>

#include "backend/cpu/gemm/job.h"
#include "backend/cpu/workspace.h"
#include "base/error.h"

namespace ng::cpu {

/// Hands out pieces of a scratch, each 64-byte aligned.
class Carver {
 public:
  explicit Carver(std::span<std::byte> memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    NG_CHECK(bytes <= memory_.size(), bytes, memory_.size());
    std::byte* begin = memory_.data();
    memory_ = memory_.subspan(bytes);
    return reinterpret_cast<T*>(begin);
  }

 private:
  std::span<std::byte> memory_;
};

/// Left panels of one chunk and superblock, and unfinished sums of one chunk.
struct Shared {
  float* elements = nullptr;
  float* scales = nullptr;
  int32_t* plain = nullptr;
  int32_t* starts = nullptr;
  int32_t* group_starts = nullptr;
  uint32_t* smallest = nullptr;
  float* partial = nullptr;

  Shared(const Workspace& workspace, const Job& job) {
    Carver carver(workspace.shared());
    const int64_t segments = job.segments(job.block_k) * (job.super_k / job.block_k);
    elements = carver.take<float>(job.elements(job.chunk_m * job.super_k));
    scales = carver.take<float>(job.chunk_m * segments);
    if (job.units == Units::int8 && !job.on_tiles) {
      starts = carver.take<int32_t>(job.chunk_m * segments * job.sums());
      if (job.words == 0) group_starts = carver.take<int32_t>(job.chunk_m * segments);
    }
    smallest = carver.take<uint32_t>(job.chunk_m / job.kernel.rows * (job.super_k / job.block_k));
    plain = carver.take<int32_t>(job.chunk_m / job.kernel.rows * segments);
    const int64_t planes = job.rule.sum == Sum::integer ? 2 : 1;
    if (!job.partial_in_y) partial = carver.take<float>(planes * job.chunk_m * job.chunk_n);
  }

  /// Panel `p` of the chunk from `k` (within the superblock) on. The panels of one block of K lie
  /// side by side, in the order in which strips read them.
  [[nodiscard]] Panel panel(const Job& job, int64_t p, int64_t k) const {
    const int rows = job.kernel.rows;
    const int64_t block = k / job.block_k;
    const int64_t inside = k % job.block_k;
    const int64_t at = (block * job.chunk_m + p * rows) * job.block_k + inside * rows;
    const int64_t segments = job.segments(job.block_k);
    const int64_t index = block * (job.chunk_m / rows) + p;
    const int64_t s = index * segments + job.segments(inside);
    Panel panel{elements + job.elements(at), scales + s * rows, plain + s};
    panel.smallest = smallest + index;
    if (starts != nullptr) panel.starts = starts + s * job.sums() * rows;
    if (group_starts != nullptr) panel.group_starts = group_starts + s * rows;
    return panel;
  }
};

/// Scratch of one worker while it computes a strip.
struct Local {
  Panel right;
  float* acc = nullptr;
  float* sums = nullptr;  ///< of a segment alone; Sum::groups: of the blocks of a group
  int32_t* totals = nullptr;
  float* widened = nullptr;  ///< Job::may_flush: a piece of both panels as FP32

  Local(const Workspace& workspace, const Job& job, int worker) {
    Carver carver(workspace.worker(worker));
    const int cols = job.kernel.cols;
    const int64_t tile = int64_t{job.kernel.rows} * cols;
    right.elements = carver.take<float>(job.elements(job.block_k * cols));
    right.scales = carver.take<float>(job.segments(job.block_k) * cols);
    right.plain = carver.take<int32_t>(job.segments(job.block_k));
    right.shifts = carver.take<float>(shift_values(job.b, cols, job.block_k));
    if (job.words != 0 && job.rule.sum == Sum::groups)
      right.factors = carver.take<uint32_t>(job.segments(job.block_k) * cols);
    acc = carver.take<float>(tile);
    sums = carver.take<float>(job.rule.sum == Sum::groups ? kGroupBlocks * tile : tile);
    totals = carver.take<int32_t>(tile);
    right.smallest = carver.take<uint32_t>(1);
    if (job.may_flush) widened = carver.take<float>(kWidenedK * (job.kernel.rows + cols));
  }
};

}  // namespace ng::cpu
