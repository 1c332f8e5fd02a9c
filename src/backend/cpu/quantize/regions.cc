#include "backend/cpu/quantize/regions.h"

#include <algorithm>
#include <numeric>

#include "backend/cpu/quantize/panel.h"
#include "base/threads.h"

namespace ng::cpu {
namespace {

/// Of the regions of rows [row, end), in whose tensor scales their amax stands as bits.
void set_scales(const QuantizeJob& job, int64_t row, int64_t end) {
  const RegionScales& regions = job.regions;
  const Operand& cast = job.spec.cast;
  const int64_t last = ceil_div(end, regions.rows) * regions.across;
  for (int64_t i = row / regions.rows * regions.across; i < last; ++i) {
    const TwoLevelScale scale =
        two_level_scale(cast.tensor_scale, regions.tensor[i], job.request.fit, cast.scale_max);
    regions.tensor[i] = scale.tensor;
    regions.block[i] = scale.block;
  }
}

}  // namespace

void PanelEncoder::note_regions(int64_t row) {
  end_k_ = job_.spec.k_padded();
  const int64_t rows = std::min(job_.plan.panel_rows, job_.spec.rows - row);
  for_chunks(row, {.row = row, .rows = rows, .k = 0, .cols = end_k_}, [&] {
    find_finite_amax();
    for (int64_t i = 0; i < tile_rows_of_chunk(); ++i) {
      const uint32_t* amax = scratch_.amax + i * blocks_;
      for_region_runs(job_, chunk_.row + i * job_.plan.tile_rows, chunk_.k, blocks_,
                      [&](int64_t region, int64_t first, int64_t end) {
                        const uint32_t most = *std::max_element(amax + first, amax + end);
                        float& noted = job_.regions.tensor[region];
                        noted = std::max(noted, float_of_bits(most));
                      });
    }
  });
}

void PanelEncoder::take_levels() const {
  for (int64_t i = 0; i < tile_rows_of_chunk(); ++i)
    for_region_runs(job_, chunk_.row + i * job_.plan.tile_rows, chunk_.k, blocks_,
                    [&](int64_t region, int64_t first, int64_t end) {
                      const int64_t at = i * blocks_ + first;
                      std::fill_n(scratch_.tensors + at, end - first, job_.regions.tensor[region]);
                      std::fill_n(scratch_.factors + at, end - first, job_.regions.block[region]);
                    });
}

void find_region_scales(const Workspace& workspace, const QuantizeJob& job) {
  const RegionScales& regions = job.regions;
  // An item has whole regions, so that no two workers meet in one.
  const int64_t rows = std::lcm(job.plan.panel_rows, regions.rows);
  parallel_for(workspace.threads(), ceil_div(job.spec.rows, rows), [&](int64_t item, int worker) {
    const int64_t row = item * rows, end = std::min(row + rows, job.spec.rows);
    const int64_t first = row / regions.rows * regions.across;
    std::fill(regions.tensor + first, regions.tensor + ceil_div(end, regions.rows) * regions.across,
              0.0f);
    QuantizeTotals totals;
    PanelEncoder encoder(job, workspace.worker(worker), totals);
    for (int64_t r = row; r < end; r += job.plan.panel_rows) encoder.note_regions(r);
    set_scales(job, row, end);
  });
}

}  // namespace ng::cpu
