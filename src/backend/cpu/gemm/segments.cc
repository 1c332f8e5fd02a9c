#include "backend/cpu/gemm/segments.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/tile.h"

namespace ng::cpu {
namespace {

// One tile: its two panels, and its sums on their way from one place to another.
struct Tile {
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
  [[nodiscard]] TileShape shape() const { return job.tile(); }

  // `segments` segments of `length` values from k on; `s` is the first one's index. Field by field:
  // copies of just written pairs of fields would wait for all the stores of the tile before.
  [[nodiscard]] SegmentRun run(int64_t k, int64_t length, int64_t segments, int64_t s) const {
    const int64_t rows = job.kernel.rows, cols = job.kernel.cols;
    SegmentRun run;
    run.segments = segments;
    run.count = job.elements(length);
    run.a = a.elements + job.elements(k) * rows;
    run.b = local.right.elements + job.elements(k) * cols;
    if (a.starts != nullptr) run.starts = a.starts + s * job.sums() * rows;
    run.scales.left = a.scales + s * rows;
    run.scales.right = local.right.scales + s * cols;
    run.scales.left_power_of_two = job.a.power_of_two;
    run.scales.right_power_of_two = job.b.power_of_two;
    run.scales.right_shared = job.b.shares_scales;
    run.words = job.words;
    if (job.left_words != 0) find_piece(run, k);
    run.rounds_products = job.kernel_rounds;
    if (local.right.factors != nullptr) run.factors = local.right.factors + s * cols;
    return run;
  }

  // In left panels of matrix tiles, whose rows lie one behind the other in pieces.
  void find_piece(SegmentRun& run, int64_t k) const {
    const int64_t word = job.elements(k), first = word / job.left_words * job.left_words;
    run.left_words = std::min(job.left_words, job.elements(count) - first);
    run.a = a.elements + first * job.kernel.rows + (word - first);
  }

  // The sums of one segment alone, as FP32.
  void sum_alone(const SegmentRun& segment, float* sums) const {
    if (!job.has_integers())
      return job.chains().chain(segment.count, segment.a, segment.b, {}, {sums, shape().cols});
    const auto tile_values = static_cast<size_t>(shape().rows) * static_cast<size_t>(shape().cols);
    std::memset(local.totals, 0, tile_values * sizeof(int32_t));
    job.dots().plain(segment, local.totals);
    convert_sums(shape(), local.totals, sums);
  }

  // Adds segments that end before `k`; the last ones, whose run gets the factor, leave the sums
  // where they shall be.
  void add(SegmentRun& run, int64_t k) {
    settled = k == count;
    const TileOut to = settled ? end : TileOut{local.acc, shape().cols};
    if (settled) run.factor = factor;
    job.scaled_kernel()(run, now, to);
    now = {to.data, to.stride};
  }

  // The sums so far, in the local tile.
  float* take() {
    if (now.data == nullptr)
      std::fill_n(local.acc, int64_t{shape().rows} * shape().cols, 0.0f);
    else if (now.data != local.acc)
      finish_tile(shape(), now, {local.acc, shape().cols}, {});
    now = {local.acc, shape().cols};
    return local.acc;
  }

  // For sums that did not end with a kernel.
  void settle() {
    const float* sums = take();
    for (int64_t i = 0; i < shape().rows; ++i)
      for (int64_t j = 0; j < shape().cols; ++j)
        end.data[i * end.stride + j] = sums[i * shape().cols + j] * factor;
  }
};

// Four blocks of scales of their own: in FP64, rounded once. [formats.md §9]
void sum_unaligned_group(Tile& tile, int64_t k, int64_t end) {
  const int64_t segment = tile.job.rule.segment, first = k / segment;
  const int64_t values = int64_t{tile.shape().rows} * tile.shape().cols;
  int64_t blocks = 0;
  for (; k < end; k += segment, ++blocks)
    tile.sum_alone(tile.run(k, std::min(segment, end - k), 1, first + blocks),
                   tile.local.sums + blocks * values);
  add_group(tile.shape(), blocks, tile.take(), tile.local.sums,
            {.left = tile.a.scales + first * tile.shape().rows,
             .right = tile.local.right.scales + first * tile.shape().cols});
}

void sum_in_groups(Tile& tile) {
  for (int64_t k = 0; k < tile.count;) {
    const int64_t s = k / (kGroup / kGroupBlocks);
    const int64_t length = std::min(kGroup, tile.count - k);
    const int64_t plain = tile.plain_from(s);
    if (plain == 0) {
      sum_unaligned_group(tile, k, k + length);
      k += length;
      continue;
    }
    const int64_t whole = (tile.count - k) / kGroup;  // 0: the last group, a part of one
    const int64_t groups = std::max<int64_t>(std::min(whole, plain / kGroupBlocks), 1);
    SegmentRun run = tile.run(k, length, groups, s);
    if (tile.a.group_starts != nullptr) run.starts = tile.a.group_starts + s * tile.shape().rows;
    run.stride = kGroupBlocks;
    k += groups * length;
    tile.add(run, k);
  }
}

void sum_one_by_one(Tile& tile) {
  const int64_t segment = tile.job.rule.segment;
  const bool any_scale = tile.job.rule.sum == Sum::scaled_fma || tile.job.kernel_rounds;
  const int64_t all = tile.count / segment;
  for (int64_t k = 0, s = 0; k < tile.count;) {
    const int64_t length = std::min(segment, tile.count - k);
    const int64_t plain = tile.job.rounds_products ? 0 : tile.plain_from(s);
    if (!any_scale && plain == 0) {
      const SegmentRun run = tile.run(k, length, 1, s);
      tile.sum_alone(run, tile.local.sums);
      add_scalbn(tile.shape(), tile.take(), tile.local.sums, run.scales);
      k += length;
      ++s;
      continue;
    }
    const int64_t whole = std::max<int64_t>(all - s, 1);
    const int64_t segments = any_scale ? whole : std::min(whole, plain);
    SegmentRun run = tile.run(k, length, segments, s);
    k += segments * length;
    s += segments;
    tile.add(run, k);
  }
}

}  // namespace

void sum_segments(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                  TileOut to, float factor) {
  Tile tile{job, count, a, local, from, to, factor};
  if (job.rule.sum == Sum::groups)
    sum_in_groups(tile);
  else
    sum_one_by_one(tile);
  if (!tile.settled) tile.settle();
}

}  // namespace ng::cpu
