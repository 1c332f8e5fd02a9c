// Loops of the GEMM, outside in. Job says how large the pieces are.
//
//   for each chunk of rows and columns, for each superblock of K:
//     pack the left panels of the chunk, shared by all workers          (parallel)
//     for each strip of `cols` columns:                                 (parallel, one worker each)
//       for each block of K: pack the right panel, for each left panel: one tile
//
// A strip's right panel belongs to one worker and stays in its L2 cache while the left panels
// stream past it. Sums that are not finished after a block of K wait in y itself, or in scratch
// where y still holds values (Into::add) or cannot hold them (integers in FP32, any in BF16).
//
// For example y (1024, 3072) of x (1024, 768) and W (3072, 768) in FP32, tiles of 8 x 48: one
// chunk, one block of K. 128 left panels, 768 · 8 · 4 bytes = 24 KiB each, 3 MiB in all, are packed
// first. Each of the 64 strips then packs its right panel, 768 · 48 · 4 = 144 KiB, and makes 128
// tiles.
#include "backend/cpu/gemm/gemm.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "backend/cpu/gemm/job.h"
#include "backend/cpu/gemm/pairs.h"
#include "backend/cpu/gemm/scratch.h"
#include "backend/cpu/gemm/sum.h"
#include "backend/cpu/gemm/tile_panels.h"

namespace ng::cpu {
namespace {

constexpr int64_t kPackRows = 64;       // left rows packed as one piece of work
constexpr double kParallelFlops = 1e6;  // below this waking the other threads costs more

// Origin of a chunk of outputs, and a superblock of K.
struct Chunk {
  int64_t row = 0, rows = 0;
  int64_t col = 0, cols = 0;
  int64_t k = 0, k_end = 0;
};

// Fetches the outputs, or waiting sums, of the tile below `place` while that one is computed: for
// those who read them or write them late.
// Inlined because GCC 12 drops calls of a function that only prefetches.
HWY_INLINE void prefetch_next(const Job& job, const Place& place) {
  constexpr int64_t kLine = 16;
  const int rows = job.kernel.rows;
  const bool waits = !job.partial_in_y && place.k + place.count < job.k;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = std::min(place.row + rows + i, job.m - 1);
    if (!waits && job.stores_bf16()) {
      const Bf16* next = job.y16.row(row) + place.col;
      for (int64_t j = 0; j < job.kernel.cols; j += 2 * kLine) hwy::Prefetch(next + j);
      continue;
    }
    const float* next =
        waits ? place.partial + (rows + i) * job.kernel.cols : job.y32.row(row) + place.col;
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
    const PanelPlace right{place.col, cols, place.k, place.count};
    if (job.on_tiles)
      pack_tile_panel(job, Side::right, right, local.right);
    else
      pack_panel(job.b, right, local.right);
    if (job.may_flush) note_smallest(local.right, cols, place.count);
    for (int64_t p = 0; p < panels; ++p) {
      place.row = chunk.row + p * rows;
      place.rows = std::min<int64_t>(rows, chunk.row + chunk.rows - place.row);
      if (!job.partial_in_y) {
        place.partial = shared.partial + (strip * job.chunk_m + p * rows) * cols;
        place.partial_totals = reinterpret_cast<int32_t*>(place.partial + plane);
      }
      if (!job.has_integers() || !job.finishes_plainly()) prefetch_next(job, place);
      const Panel a = shared.panel(job, p, place.k - chunk.k);
      run_tile(job, place, a, local);
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
    const bool together = job.a.transposed && !job.on_tiles;
    if (together) {
      const int64_t stride = job.elements(job.block_k * rows);
      pack_transposed(job.a, place, {panel.elements, end - first, stride});
    }
    for (int64_t p = first; p < end; ++p, place.row += rows) {
      panel = shared.panel(job, p, k - chunk.k);
      panel.shifts = shifts;
      if (job.on_tiles)
        pack_tile_panel(job, Side::left, place, panel);
      else if (!together)
        pack_panel(job.a, place, panel);
      if (job.may_flush) note_smallest(panel, rows, place.count);
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

}  // namespace

void gemm(Workspace& workspace, const Gemm& op) { gemm(workspace, op, current_matrix_kernels()); }

void gemm(Workspace& workspace, const Gemm& op, const MatrixKernels* tiles) {
  if (op.y.rows == 0 || op.y.cols == 0) return;
  const Job job = job_of(op, tiles);
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
