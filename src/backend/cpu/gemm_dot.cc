#include "backend/cpu/gemm_dot.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm_tile.h"

namespace ng::cpu {
namespace {

// One tile: its two panels, and its sums on their way from one place to another.
struct Dots {
  const Job& job;
  int64_t count;
  const Panel& a;
  const Local& local;
  TileIn now{};  // the sums so far; null: +0
  TileOut end{};
  float factor = 1.0f;  // of the sums at the end
  bool settled = false;

  // How many segments from `s` on are plain in both panels.
  [[nodiscard]] int64_t plain_from(int64_t s) const {
    return std::min(a.plain[s], local.right.plain[s]);
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
    job.kernel.dots.plain(segment, local.totals);
    convert_sums(tile(), local.totals, local.sums);
  }

  // Adds segments that end before `k`; the last ones leave the sums where they shall be.
  void add(DotRun run, int64_t k) {
    settled = k == count;
    const TileOut to = settled ? end : TileOut{local.acc, tile().cols};
    if (settled) run.factor = factor;
    job.kernel.dots.scaled(run, now, to);
    now = {to.data, to.stride};
  }

  // The sums so far, in the local tile.
  float* take() {
    if (now.data == nullptr)
      std::fill_n(local.acc, int64_t{tile().rows} * tile().cols, 0.0f);
    else if (now.data != local.acc)
      finish_tile(tile(), now, {local.acc, tile().cols}, {});
    now = {local.acc, tile().cols};
    return local.acc;
  }

  // For sums that did not end with a kernel.
  void settle() {
    const float* sums = take();
    for (int64_t i = 0; i < tile().rows; ++i)
      for (int64_t j = 0; j < tile().cols; ++j)
        end.data[i * end.stride + j] = sums[i * tile().cols + j] * factor;
  }
};

// Four blocks of scales of their own: in FP64, rounded once. [formats.md §9]
void sum_unaligned_group(Dots& dots, int64_t k, int64_t end) {
  for (; k < end; k += 32) {
    const DotRun block = dots.run(k, std::min<int64_t>(32, end - k), 1, k / 32);
    dots.sum_alone(block);
    add_to_group(dots.tile(), dots.local.group, dots.local.sums, block.scales);
  }
  add_group(dots.tile(), dots.take(), dots.local.group);
}

void sum_groups(Dots& dots) {
  for (int64_t k = 0; k < dots.count;) {
    const int64_t s = k / 32;
    const int64_t length = std::min(kGroup, dots.count - k);
    const int64_t plain = dots.plain_from(s);
    if (plain == 0) {
      sum_unaligned_group(dots, k, k + length);
      k += length;
      continue;
    }
    const int64_t whole = (dots.count - k) / kGroup;  // 0: the last group, a part of one
    const int64_t groups = std::max<int64_t>(std::min(whole, plain / kGroupBlocks), 1);
    DotRun run = dots.run(k, length, groups, s);
    run.starts = dots.a.group_starts + s * dots.job.kernel.rows;
    run.stride = kGroupBlocks;
    k += groups * length;
    dots.add(run, k);
  }
}

void sum_segments(Dots& dots) {
  const int64_t segment = dots.job.rule.segment;
  const bool any_scale = dots.job.rule.sum == Sum::scaled_fma;
  for (int64_t k = 0; k < dots.count;) {
    const int64_t s = k / segment;
    const int64_t length = std::min(segment, dots.count - k);
    const int64_t plain = dots.plain_from(s);
    if (!any_scale && plain == 0) {
      const DotRun run = dots.run(k, length, 1, s);
      dots.sum_alone(run);
      add_scalbn(dots.tile(), dots.take(), dots.local.sums, run.scales);
      k += length;
      continue;
    }
    const int64_t whole = std::max<int64_t>((dots.count - k) / segment, 1);
    const int64_t segments = any_scale ? whole : std::min(whole, plain);
    const DotRun run = dots.run(k, length, segments, s);
    k += segments * length;
    dots.add(run, k);
  }
}

}  // namespace

void sum_scaled_dots(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                     TileOut to, float factor) {
  Dots dots{job, count, a, local, from, to, factor};
  if (job.rule.sum == Sum::groups)
    sum_groups(dots);
  else
    sum_segments(dots);
  if (!dots.settled) dots.settle();
}

void sum_integer_dots(const Job& job, int64_t k, int64_t count, const Panel& a,
                      const Local& local) {
  const Dots dots{job, count, a, local};
  for (int64_t at = 0; at < count; at += kIntegerSegment) {
    const int64_t length = std::min(kIntegerSegment, count - at);
    job.kernel.dots.plain(dots.run(at, length, 1, at / kIntegerSegment), local.totals);
    const int64_t end = k + at + length;
    if (end % kIntegerChunk == 0 || end == job.k) add_totals(dots.tile(), local.acc, local.totals);
  }
}

}  // namespace ng::cpu
