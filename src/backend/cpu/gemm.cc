// Loops of the GEMM, outside in. One chunk of outputs is at most kChunkRows × all columns.
//
//   for each chunk of rows and columns, for each superblock of K:
//     pack the left panels of the chunk, shared by all workers          (parallel)
//     for each strip of `cols` columns:                                 (parallel, one worker each)
//       for each block of K: pack the right panel, for each left panel: one tile
//
// A strip's right panel belongs to one worker and stays in its L2 cache while the left panels
// stream past it. Sums that are not finished after a block of K wait in y itself, or in scratch
// where y still holds values (Into::add) or where FP32 cannot hold them (integers).
#include "backend/cpu/gemm.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm_panel.h"
#include "backend/cpu/gemm_rule.h"
#include "backend/cpu/gemm_tile.h"
#include "backend/cpu/isa/microkernel.h"
#include "base/error.h"

namespace ng::cpu {
namespace {

constexpr int64_t kBlockK = 1024;       // a right panel of 48 columns takes 192 KiB of L2
constexpr int64_t kSuperblockK = 2048;  // left panels of 1024 rows take the 8 MiB below
constexpr int64_t kPackRows = 64;       // left rows packed as one piece of work
constexpr int64_t kLeftFloats = int64_t{2} << 20;
constexpr int64_t kPartialFloats = int64_t{1} << 20;
constexpr double kParallelFlops = 1e6;  // below this waking the other threads costs more

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Everything about one GEMM that its loops read.
struct Job {
  const GemmOutput& out;
  const Microkernel& kernel;
  GemmRule rule;
  PanelSource a{};
  PanelSource b{};
  int64_t m = 0, n = 0, k = 0;
  int64_t block_k = 0;  // multiple of rule.unit
  int64_t super_k = 0;  // multiple of block_k
  int64_t chunk_m = 0;  // multiple of kernel.rows
  int64_t chunk_n = 0;  // multiple of kernel.cols
  bool scaled = false;
  bool partial_in_y = true;

  [[nodiscard]] int64_t segments(int64_t count) const {
    return rule.segment == 0 ? 0 : ceil_div(count, rule.segment);
  }
  [[nodiscard]] TileShape tile() const { return {kernel.rows, kernel.cols}; }
  [[nodiscard]] bool finishes_plainly() const {
    return !scaled && out.bias == nullptr && out.into != Into::add && out.round == Compute::fp32;
  }
};

// Hands out pieces of a scratch, each 64-byte aligned.
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

// Left panels of one chunk and superblock, and unfinished sums of one chunk.
struct Shared {
  float* elements = nullptr;
  float* scales = nullptr;
  uint8_t* plain = nullptr;
  float* partial = nullptr;

  Shared(const Workspace& workspace, const Job& job) {
    Carver carver(workspace.shared());
    const int64_t segments = job.segments(job.block_k) * (job.super_k / job.block_k);
    elements = carver.take<float>(job.chunk_m * job.super_k);
    scales = carver.take<float>(job.chunk_m * segments);
    plain = carver.take<uint8_t>(job.chunk_m / job.kernel.rows * segments);
    const int64_t planes = job.rule.sum == Sum::integer ? 2 : 1;
    if (!job.partial_in_y) partial = carver.take<float>(planes * job.chunk_m * job.chunk_n);
  }

  // Panel `p` of the chunk from `k` (within the superblock) on. The panels of one block of K lie
  // side by side, in the order in which strips read them.
  [[nodiscard]] Panel panel(const Job& job, int64_t p, int64_t k) const {
    const int rows = job.kernel.rows;
    const int64_t block = k / job.block_k;
    const int64_t inside = k % job.block_k;
    const int64_t at = (block * job.chunk_m + p * rows) * job.block_k + inside * rows;
    const int64_t segments = job.segments(job.block_k);
    const int64_t s = (block * (job.chunk_m / rows) + p) * segments + job.segments(inside);
    return {elements + at, scales + s * rows, plain + s, nullptr};
  }
};

// Scratch of one worker while it computes a strip.
struct Local {
  Panel right;
  float* acc = nullptr;
  float* sums = nullptr;
  double* group = nullptr;
  int32_t* totals = nullptr;

  Local(const Workspace& workspace, const Job& job, int worker) {
    Carver carver(workspace.worker(worker));
    const int cols = job.kernel.cols;
    const int64_t tile = int64_t{job.kernel.rows} * cols;
    right.elements = carver.take<float>(job.block_k * cols);
    right.scales = carver.take<float>(job.segments(job.block_k) * cols);
    right.plain = carver.take<uint8_t>(job.segments(job.block_k));
    right.shifts = carver.take<float>(shift_values(job.b, cols, job.block_k));
    acc = carver.take<float>(tile);
    sums = carver.take<float>(tile);
    group = carver.take<double>(tile);
    totals = carver.take<int32_t>(tile);
    std::memset(group, 0, static_cast<size_t>(tile) * sizeof(double));
  }
};

// Origin of a chunk of outputs, and a superblock of K.
struct Chunk {
  int64_t row = 0, rows = 0;
  int64_t col = 0, cols = 0;
  int64_t k = 0, k_end = 0;
};

// One tile and one block of K.
struct Place {
  int64_t row = 0, rows = 0;  // outputs that exist; a whole tile may be more
  int64_t col = 0, cols = 0;
  int64_t k = 0, count = 0;
  float* partial = nullptr;  // where partial sums of the tile wait; null: in y
  int32_t* partial_totals = nullptr;
};

// ---------------------------------------------------------------- tiles

void sum_groups(const Job& job, int64_t count, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  for (int64_t k = 0; k < count; k += kGroup) {
    const int64_t end = std::min(count, k + kGroup);
    const float* left = a.elements + k * shape.rows;
    const float* right = local.right.elements + k * shape.cols;
    const TileOut sums{local.sums, shape.cols};
    const auto scales_at = [&](int64_t s) {
      return SegmentScales{a.scales + s * shape.rows, local.right.scales + s * shape.cols, true,
                           true};
    };
    if (a.plain[k / 32] != 0 && local.right.plain[k / 32] != 0) {
      job.kernel.scaled(end - k, left, right, scales_at(k / 32), local.acc);
      continue;
    }
    for (int64_t j = k; j < end; j += 32) {
      job.kernel.chain(std::min<int64_t>(32, end - j), a.elements + j * shape.rows,
                       local.right.elements + j * shape.cols, {}, sums);
      add_to_group(shape, local.group, local.sums, scales_at(j / 32));
    }
    add_group(shape, local.acc, local.group);
  }
}

void sum_segments(const Job& job, int64_t count, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  for (int64_t k = 0, s = 0; k < count; k += job.rule.segment, ++s) {
    const int64_t length = std::min(job.rule.segment, count - k);
    const float* left = a.elements + k * shape.rows;
    const float* right = local.right.elements + k * shape.cols;
    const SegmentScales scales{a.scales + s * shape.rows, local.right.scales + s * shape.cols,
                               job.a.power_of_two, job.b.power_of_two};
    const bool fused = job.rule.sum == Sum::scaled_fma;
    if (!fused && a.plain[s] != 0 && local.right.plain[s] != 0) {
      job.kernel.scaled(length, left, right, scales, local.acc);
      continue;
    }
    job.kernel.chain(length, left, right, {}, {local.sums, shape.cols});
    if (fused)
      add_fma(shape, local.acc, local.sums, scales);
    else
      add_scalbn(shape, local.acc, local.sums, scales);
  }
}

void sum_integers(const Job& job, const Place& place, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  for (int64_t k = 0; k < place.count; k += kIntegerSegment) {
    job.kernel.chain(std::min(kIntegerSegment, place.count - k), a.elements + k * shape.rows,
                     local.right.elements + k * shape.cols, {}, {local.sums, shape.cols});
    add_integers(shape, local.totals, local.sums);
    const int64_t end = place.k + std::min(k + kIntegerSegment, place.count);
    if (end % kIntegerChunk == 0 || end == job.k) add_totals(shape, local.acc, local.totals);
  }
}

// A copy is a finish without steps.
void copy_tile(const TileShape& shape, TileIn from, TileOut to) {
  finish_tile(shape, from, to, Finish{});
}

void finish_into_y(const Job& job, const Place& place, const Local& local) {
  const auto rows = static_cast<int>(place.rows);
  const auto cols = static_cast<int>(place.cols);
  float left[kMaxTileRows];
  float right[kMaxTileCols];
  if (job.scaled) {
    for (int i = 0; i < rows; ++i) left[i] = job.a.end_scale(place.row + i);
    for (int j = 0; j < cols; ++j) right[j] = job.b.end_scale(place.col + j);
  }
  const Finish finish{.scaled = job.scaled,
                      .left_scale = left,
                      .right_scale = right,
                      .alpha = job.rule.alpha,
                      .bias = job.out.bias != nullptr ? job.out.bias + place.col : nullptr,
                      .add = job.out.into == Into::add,
                      .to_bf16 = job.out.round == Compute::bf16};
  finish_tile({rows, cols}, {local.acc, job.kernel.cols},
              {job.out.y.row(place.row) + place.col, job.out.y.stride}, finish);
}

// FP32 family: the microkernel works on y (or the partial sums) directly where the tile is whole.
void run_chain_tile(const Job& job, const Place& place, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  const TileShape clipped{static_cast<int>(place.rows), static_cast<int>(place.cols)};
  const bool whole = place.rows == shape.rows && place.cols == shape.cols;
  const bool first = place.k == 0;
  const bool last = place.k + place.count == job.k;
  const View& y = job.out.y;
  const TileOut in_y{y.row(place.row) + place.col, y.stride};
  const TileOut buffer{local.acc, shape.cols};
  const TileOut waiting = job.partial_in_y ? in_y : TileOut{place.partial, shape.cols};

  TileIn from;
  if (!first) from = {waiting.data, waiting.stride};
  if (first && job.out.into == Into::carry) from = {in_y.data, in_y.stride};
  if (from.data != nullptr && from.data == in_y.data && !whole) {
    copy_tile(clipped, from, buffer);
    from = {buffer.data, buffer.stride};
  }
  const TileOut target = last ? in_y : waiting;
  const bool direct = (!last || job.finishes_plainly()) && (whole || target.data != in_y.data);
  const TileOut to = direct ? target : buffer;
  job.kernel.chain(place.count, a.elements, local.right.elements, from, to);
  if (direct) return;
  if (last)
    finish_into_y(job, place, local);
  else
    copy_tile(clipped, {buffer.data, buffer.stride}, in_y);
}

// Everything else: sums of segments go into a tile of their own.
void run_segment_tile(const Job& job, const Place& place, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  const auto tile = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.cols);
  const TileShape clipped{static_cast<int>(place.rows), static_cast<int>(place.cols)};
  const TileShape held = job.partial_in_y ? clipped : shape;
  const TileOut buffer{local.acc, shape.cols};
  const View& y = job.out.y;
  const TileOut waiting = job.partial_in_y ? TileOut{y.row(place.row) + place.col, y.stride}
                                           : TileOut{place.partial, shape.cols};
  const bool is_integer = job.rule.sum == Sum::integer;
  if (place.k == 0) {
    std::memset(local.acc, 0, tile * sizeof(float));
    std::memset(local.totals, 0, tile * sizeof(int32_t));
  } else {
    copy_tile(held, {waiting.data, waiting.stride}, buffer);
    if (is_integer) std::memcpy(local.totals, place.partial_totals, tile * sizeof(int32_t));
  }
  if (is_integer)
    sum_integers(job, place, a, local);
  else if (job.rule.sum == Sum::groups)
    sum_groups(job, place.count, a, local);
  else
    sum_segments(job, place.count, a, local);
  if (place.k + place.count == job.k) return finish_into_y(job, place, local);
  copy_tile(held, {buffer.data, buffer.stride}, waiting);
  if (is_integer) std::memcpy(place.partial_totals, local.totals, tile * sizeof(int32_t));
}

// ---------------------------------------------------------------- strips and chunks

// Fetches the outputs, or waiting sums, of the tile below `place` while that one is computed.
// Inlined because GCC 12 drops calls of a function that only prefetches.
HWY_INLINE void prefetch_next(const Job& job, const Place& place) {
  constexpr int64_t kLine = 16;
  const int rows = job.kernel.rows;
  const View& y = job.out.y;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = std::min(place.row + rows + i, job.m - 1);
    const float* next = y.row(row) + place.col;
    if (!job.partial_in_y && place.k + place.count < job.k)
      next = place.partial + (rows + i) * job.kernel.cols;
    for (int64_t j = 0; j < job.kernel.cols; j += kLine) hwy::Prefetch(next + j);
  }
}

void run_strip(const Job& job, const Chunk& chunk, const Shared& shared, const Local& local,
               int64_t strip) {
  const int rows = job.kernel.rows;
  const int cols = job.kernel.cols;
  const int64_t panels = ceil_div(chunk.rows, rows);
  const int64_t plane = job.chunk_m * job.chunk_n;
  Place place;
  place.col = chunk.col + strip * cols;
  place.cols = std::min<int64_t>(cols, chunk.col + chunk.cols - place.col);
  place.k = chunk.k;
  do {
    place.count = std::min(job.block_k, chunk.k_end - place.k);
    pack_panel(job.b, {place.col, cols, place.k, place.count}, local.right);
    for (int64_t p = 0; p < panels; ++p) {
      place.row = chunk.row + p * rows;
      place.rows = std::min<int64_t>(rows, chunk.row + chunk.rows - place.row);
      if (!job.partial_in_y) {
        place.partial = shared.partial + (strip * job.chunk_m + p * rows) * cols;
        place.partial_totals = reinterpret_cast<int32_t*>(place.partial + plane);
      }
      prefetch_next(job, place);
      const Panel a = shared.panel(job, p, place.k - chunk.k);
      if (job.rule.sum == Sum::chain)
        run_chain_tile(job, place, a, local);
      else
        run_segment_tile(job, place, a, local);
    }
    place.k += place.count;
  } while (place.k < chunk.k_end);
}

// Packs the left panels of kPackRows rows.
void pack_left(const Job& job, const Chunk& chunk, const Shared& shared, float* shifts,
               int64_t item) {
  const int rows = job.kernel.rows;
  const int64_t first = item * kPackRows / rows;
  const int64_t end = std::min(ceil_div(chunk.rows, rows), first + kPackRows / rows);
  for (int64_t k = chunk.k; k < chunk.k_end; k += job.block_k) {
    PanelPlace place{chunk.row + first * rows, rows, k, std::min(job.block_k, chunk.k_end - k)};
    Panel panel = shared.panel(job, first, k - chunk.k);
    if (job.a.transposed) {
      pack_transposed(job.a, place, {panel.elements, end - first, job.block_k * rows});
      continue;
    }
    for (int64_t p = first; p < end; ++p, place.row += rows) {
      panel = shared.panel(job, p, k - chunk.k);
      panel.shifts = shifts;
      pack_panel(job.a, place, panel);
    }
  }
}

void run_chunk(const Workspace& workspace, const Job& job, const Chunk& chunk, bool pack) {
  const bool small = 2.0 * double(job.m) * double(job.n) * double(job.k) < kParallelFlops;
  const Threads threads = small ? Threads{1} : workspace.threads();
  const Shared shared(workspace, job);
  if (pack)
    parallel_for(threads, ceil_div(chunk.rows, kPackRows), [&](int64_t item, int worker) {
      Carver carver(workspace.worker(worker));
      pack_left(job, chunk, shared,
                carver.take<float>(shift_values(job.a, job.kernel.rows, job.block_k)), item);
    });
  parallel_for(threads, ceil_div(chunk.cols, job.kernel.cols), [&](int64_t strip, int worker) {
    run_strip(job, chunk, shared, Local(workspace, job, worker), strip);
  });
}

// ---------------------------------------------------------------- plan

// Even pieces of at most `largest`, each a multiple of `unit`.
int64_t even_piece(int64_t total, int64_t largest, int64_t unit) {
  largest = std::max(largest / unit * unit, unit);
  const int64_t pieces = std::max<int64_t>(ceil_div(total, largest), 1);
  return std::max(round_up(ceil_div(total, pieces), unit), unit);
}

void plan(Job& job) {
  const int rows = job.kernel.rows;
  const int cols = job.kernel.cols;
  job.block_k = even_piece(job.k, kBlockK, job.rule.unit);
  job.super_k = std::min(std::max(kSuperblockK / job.block_k, int64_t{1}) * job.block_k,
                         round_up(std::max<int64_t>(job.k, 1), job.block_k));
  const int64_t segments = job.segments(job.block_k) * (job.super_k / job.block_k);
  const int64_t floats_per_row = job.super_k + 2 * segments;
  job.chunk_m = even_piece(job.m, kLeftFloats / floats_per_row, rows);
  job.chunk_n = round_up(job.n, cols);
  const bool waits = job.k > job.block_k;
  job.partial_in_y = !waits || (job.out.into != Into::add && job.rule.sum != Sum::integer);
  if (job.partial_in_y) return;
  const int64_t planes = job.rule.sum == Sum::integer ? 2 : 1;
  job.chunk_m = std::min(job.chunk_m, kPartialFloats / (planes * cols) / rows * rows);
  job.chunk_n = even_piece(job.n, kPartialFloats / (planes * job.chunk_m), cols);
}

Job job_of(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) {
  NG_CHECK(a.spec.rows == out.y.rows && b.spec.rows == out.y.cols, a.spec.rows, out.y.rows,
           b.spec.rows, out.y.cols);
  NG_CHECK(a.spec.k_padded() == b.spec.k_padded() && a.spec.hadamard == b.spec.hadamard,
           a.spec.k_padded(), b.spec.k_padded());
  Job job{.out = out, .kernel = current_microkernel(), .rule = rule_of(a.spec, b.spec)};
  job.a = panel_source(a, job.rule.a_scales, job.rule.segment);
  job.b = panel_source(b, job.rule.b_scales, job.rule.segment);
  job.m = out.y.rows;
  job.n = out.y.cols;
  job.k = a.spec.k_padded();
  job.scaled =
      job.a.tensor_scale != nullptr || job.b.tensor_scale != nullptr || job.rule.alpha != 1.0f;
  NG_CHECK(out.into != Into::carry || (job.rule.sum == Sum::chain && !job.scaled));
  plan(job);
  return job;
}

}  // namespace

void gemm(Workspace& workspace, const GemmOutput& out, const PackedOperand& a,
          const PackedOperand& b) {
  if (out.y.rows == 0 || out.y.cols == 0) return;
  const Job job = job_of(out, a, b);
  Chunk chunk;
  for (chunk.row = 0; chunk.row < job.m; chunk.row += job.chunk_m) {
    chunk.rows = std::min(job.chunk_m, job.m - chunk.row);
    for (chunk.col = 0; chunk.col < job.n; chunk.col += job.chunk_n) {
      chunk.cols = std::min(job.chunk_n, job.n - chunk.col);
      chunk.k = 0;
      do {
        chunk.k_end = std::min(job.k, chunk.k + job.super_k);
        const bool packed_already = chunk.col > 0 && job.k <= job.super_k;
        run_chunk(workspace, job, chunk, !packed_already);
        chunk.k = chunk.k_end;
      } while (chunk.k < job.k);
    }
  }
}

}  // namespace ng::cpu
