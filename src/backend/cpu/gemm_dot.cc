#include "backend/cpu/gemm_dot.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm_tile.h"

namespace ng::cpu {
namespace {

// The tile's two panels and what is summed into.
struct Dots {
  const Job& job;
  int64_t count;
  const Panel& a;
  const Local& local;

  [[nodiscard]] bool is_plain(int64_t s) const {
    return a.plain[s] != 0 && local.right.plain[s] != 0;
  }
  [[nodiscard]] TileShape tile() const { return job.tile(); }

  // `segments` segments of `length` values from k on; `s` is the first one's index.
  [[nodiscard]] DotRun run(int64_t k, int64_t length, int64_t segments, int64_t s) const {
    const int64_t rows = job.kernel.rows, cols = job.kernel.cols;
    const float* left = a.elements + k / kWord * rows;
    const float* right = local.right.elements + k / kWord * cols;
    return {.segments = segments,
            .words = length / kWord,
            .a = reinterpret_cast<const uint32_t*>(left),
            .b = reinterpret_cast<const uint32_t*>(right),
            .starts = a.starts + s * rows,
            .scales = {a.scales + s * rows, local.right.scales + s * cols, job.a.power_of_two,
                       job.b.power_of_two}};
  }

  // The sums of one segment alone, as FP32.
  void sum_alone(const DotRun& segment) const {
    const auto tile_values = static_cast<size_t>(tile().rows) * static_cast<size_t>(tile().cols);
    std::memset(local.totals, 0, tile_values * sizeof(int32_t));
    job.kernel.dot(segment, local.totals);
    convert_sums(tile(), local.totals, local.sums);
  }
};

// Four blocks of scales of their own: in FP64, rounded once. [formats.md §9]
void sum_unaligned_group(const Dots& dots, int64_t k, int64_t end) {
  for (; k < end; k += 32) {
    const DotRun block = dots.run(k, std::min<int64_t>(32, end - k), 1, k / 32);
    dots.sum_alone(block);
    add_to_group(dots.tile(), dots.local.group, dots.local.sums, block.scales);
  }
  add_group(dots.tile(), dots.local.acc, dots.local.group);
}

void sum_groups(const Dots& dots) {
  for (int64_t k = 0; k < dots.count;) {
    const int64_t s = k / 32;
    const int64_t length = std::min(kGroup, dots.count - k);
    if (!dots.is_plain(s)) {
      sum_unaligned_group(dots, k, k + length);
      k += length;
      continue;
    }
    int64_t groups = 1;
    while (k + (groups + 1) * kGroup <= dots.count && dots.is_plain(s + groups * kGroupBlocks))
      ++groups;
    DotRun run = dots.run(k, length, groups, s);
    run.starts = dots.a.group_starts + s * dots.job.kernel.rows;
    run.stride = kGroupBlocks;
    dots.job.kernel.dot_scaled(run, dots.local.acc);
    k += groups * length;
  }
}

void sum_segments(const Dots& dots) {
  const int64_t segment = dots.job.rule.segment;
  const bool any_scale = dots.job.rule.sum == Sum::scaled_fma;
  for (int64_t k = 0; k < dots.count;) {
    const int64_t s = k / segment;
    const int64_t length = std::min(segment, dots.count - k);
    if (!any_scale && !dots.is_plain(s)) {
      const DotRun run = dots.run(k, length, 1, s);
      dots.sum_alone(run);
      add_scalbn(dots.tile(), dots.local.acc, dots.local.sums, run.scales);
      k += length;
      continue;
    }
    int64_t segments = 1;
    while (k + (segments + 1) * segment <= dots.count && (any_scale || dots.is_plain(s + segments)))
      ++segments;
    dots.job.kernel.dot_scaled(dots.run(k, length, segments, s), dots.local.acc);
    k += segments * length;
  }
}

void sum_integers(const Dots& dots, int64_t first) {
  for (int64_t k = 0; k < dots.count; k += kIntegerSegment) {
    const int64_t length = std::min(kIntegerSegment, dots.count - k);
    dots.job.kernel.dot(dots.run(k, length, 1, k / kIntegerSegment), dots.local.totals);
    const int64_t end = first + k + length;
    if (end % kIntegerChunk == 0 || end == dots.job.k)
      add_totals(dots.tile(), dots.local.acc, dots.local.totals);
  }
}

}  // namespace

void sum_dots(const Job& job, int64_t k, int64_t count, const Panel& a, const Local& local) {
  const Dots dots{job, count, a, local};
  if (job.rule.sum == Sum::integer)
    sum_integers(dots, k);
  else if (job.rule.sum == Sum::groups)
    sum_groups(dots);
  else
    sum_segments(dots);
}

}  // namespace ng::cpu
