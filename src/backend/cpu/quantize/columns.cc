#include "backend/cpu/quantize/columns.h"

#include <algorithm>

#include "backend/cpu/quantize/exact.h"
#include "backend/cpu/quantize/regions.h"
#include "backend/cpu/quantize/trials.h"
#include "base/error.h"

namespace ng::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kColumnChunk = 128;  // along K: whole blocks and transforms, 32 KiB of a panel
constexpr int64_t kMostBlocks = kColumnChunk / 16;

}  // namespace

bool encodes_columns(const OperandSpec& spec, const PackedLayout& layout) {
  const Operand& cast = spec.cast;
  const bool tiled = cast.block.kind == Block::Kind::tile && !cast.is_unscaled();
  if (!layout.interleaved || spec.contract != Contract::rows || !tiled) return false;
  const int cols = cast.block.cols;
  if ((cols != 16 && cols != 32 && cols != 64 && cols != 128) || spec.k_padded() % cols != 0)
    return false;
  if (cast.block.rows != 1 && cast.block.rows != 16) return false;
  if (cast.block.rows != 1 && cast.fit.size() > 1) return false;  // lanes are no blocks
  const bool has_table_scale =
      (cast.scale == ScaleKind::e8m0 && cast.scale_rule != ScaleRule::mse) ||
      cast.scale == ScaleKind::e4m3;
  return has_table_scale && cast.overflow == Overflow::saturate &&
         cast.subnormals == Subnormals::keep && cast.scale_of == ScaleOf::amax &&
         cast.rounding != Rounding::eden &&
         (cast.rounding == Rounding::nearest || cast.sr_bits != 32);
}

struct ColumnEncoder::Scratch {
  alignas(64) float values[kColumnChunk * kLanes];
  alignas(64) float transformed[kColumnChunk * kLanes];
  alignas(64) uint16_t draws[kColumnChunk * kColumnPanel];
  alignas(64) uint32_t amax[kMostBlocks * kLanes];
  alignas(64) float decode[kMostBlocks * kLanes];
  alignas(64) float multiplier[kMostBlocks * kLanes];
  alignas(64) float tensors[kMostBlocks * kLanes];  // of regions, where they have second scales
  alignas(64) float factors[kMostBlocks * kLanes];
};

ColumnEncoder::ColumnEncoder(const QuantizeJob& job, std::span<std::byte> memory,
                             QuantizeTotals& totals)
    : job_(job), totals_(totals), scratch_(*reinterpret_cast<Scratch*>(memory.data())) {
  NG_CHECK(memory.size() >= sizeof(Scratch), memory.size());
}

void ColumnEncoder::encode(const Piece& area) {
  end_k_ = area.k + area.cols;
  for (int64_t row = area.row; row < area.row + area.rows; row += kColumnPanel)
    encode_panel(row, area);
}

void ColumnEncoder::encode_panel(int64_t row, const Piece& area) {
  panel_ = row;
  const int64_t end = std::min(row + kColumnPanel, area.row + area.rows);
  for (int64_t k = area.k; k < end_k_; k += kColumnChunk) {
    const int64_t count = std::min(kColumnChunk, end_k_ - k);
    if (job_.spec.cast.rounding == Rounding::stochastic) draw(k, count);
    for (int64_t r = row; r < end; r += kLanes) encode_sixteen(r, k, count);
  }
}

void ColumnEncoder::note_amax(const Piece& area) {
  end_k_ = area.k + area.cols;
  for (panel_ = area.row; panel_ < area.row + area.rows; panel_ += kColumnPanel)
    note_panel_amax(area.k, std::min(panel_ + kColumnPanel, area.row + area.rows));
}

void ColumnEncoder::note_panel_amax(int64_t first_k, int64_t end) {
  for (int64_t k = first_k; k < end_k_; k += kColumnChunk)
    for (int64_t r = panel_; r < end; r += kLanes) {
      ColumnTile tile = load(r, k, std::min(kColumnChunk, end_k_ - k));
      tile.block = tile.k;
      column_amax(tile, scratch_.amax);
      uint32_t amax = *std::max_element(scratch_.amax, scratch_.amax + kLanes);
      totals_.nonfinite |= amax >= kFloatInf;
      if (amax > kFloatInf) amax = amax_without_nan(tile.values, tile.k, kLanes);
      totals_.amax = std::max(totals_.amax, amax);
    }
}

// Draws of the panel's columns, source row by source row. [recipes.md §0]
void ColumnEncoder::draw(int64_t k, int64_t count) {
  const DrawGroups& groups = job_.source.groups();
  const int64_t first = groups.first + k * groups.per_row + panel_ / 8;
  draw_strip(job_.context.key,
             {.group = static_cast<uint64_t>(first),
              .group_stride = static_cast<uint64_t>(groups.per_row),
              .rows = count,
              .groups = kColumnPanel / 8},
             scratch_.draws);
  if (job_.spec.cast.sr_bits == 8) keep_high_bytes(scratch_.draws, count * kColumnPanel);
}

// Of the next rows, every sixteen columns fetch a quarter.
void ColumnEncoder::fetch_next(ColumnTile& tile, int64_t row, int64_t k) const {
  const ConstView& source = job_.source.view();
  const auto bytes = static_cast<int64_t>(bytes_of(*source.element, 1));
  const int64_t first = k + kColumnChunk + (row - panel_) / kLanes * tile.k / 4;
  tile.next = source.data + (first * source.stride + panel_) * bytes;
  tile.next_stride = source.stride * bytes;
  tile.next_bytes = kColumnPanel * bytes;
}

// Values of sixteen columns: in place where all of them exist, and transformed.
ColumnTile ColumnEncoder::load(int64_t row, int64_t k, int64_t count) {
  const OperandSource& source = job_.source;
  ColumnTile tile{.values = {}, .k = count, .counted_k = job_.spec.k - k};
  const bool exist = row + kLanes <= source.cols() && k + count <= source.rows();
  const Hadamard& hadamard = job_.spec.hadamard;
  HadamardRule by = source.transform_from(row);
  if (exist && k + count < end_k_) fetch_next(tile, row, k);
  if (exist && (!source.has_mean() || hadamard.size > 0)) {
    tile.values = source.values(k, row);
  } else {
    by.mean = nullptr;  // which is taken off here
    std::fill_n(scratch_.values, kColumnChunk * kLanes, 0.0f);
    const int64_t cols = std::min(kLanes, source.cols() - row);
    for (int64_t i = 0; i < std::min(count, source.rows() - k); ++i)
      source.widen(k + i, row, cols, scratch_.values + i * kLanes);
    tile.values = {scratch_.values, kLanes};
  }
  if (hadamard.size == 0) return tile;
  hadamard_columns(tile, by, scratch_.transformed);
  tile.values = {scratch_.transformed, kLanes};
  tile.next = nullptr;
  return tile;
}

void ColumnEncoder::find_scales(const ColumnTile& tile, int64_t row, int64_t k) {
  const int64_t blocks = tile.k / tile.block;
  column_amax(tile, scratch_.amax);
  nonfinite_ = false;
  for (int64_t b = 0; b < blocks; ++b) {
    uint32_t* amax = scratch_.amax + b * kLanes;
    const bool nonfinite = *std::max_element(amax, amax + kLanes) >= kFloatInf;
    nonfinite_ |= nonfinite;
    if (nonfinite && job_.request.kind == ScaleKind::e4m3)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        amax[lane] = amax_without_nan(tile.values.from(b * tile.block, lane), tile.block, 1);
    if (job_.plan.tile_rows == kLanes)
      std::fill_n(amax, kLanes, *std::max_element(amax, amax + kLanes));
  }
  ScaleRequest request = job_.request;
  if (job_.regions) {
    take_levels(row, k, blocks);
    request.own = {scratch_.tensors, scratch_.factors};
  }
  block_scales(request, scratch_.amax, blocks * kLanes, scratch_.decode, scratch_.multiplier);
  if (!job_.context.stored.has_scales()) {
    if (scales_to_try(job_) > 1) choose_scales_of(tile);
    return;
  }
  for (int64_t i = 0; i < blocks * kLanes; ++i)
    take_stored_scale(job_, row + i % kLanes, k + i / kLanes * tile.block, scratch_.decode[i],
                      scratch_.multiplier[i]);
}

void ColumnEncoder::take_levels(int64_t row, int64_t k, int64_t blocks) {
  for (int64_t lane = 0; lane < kLanes; ++lane)
    for_region_runs(job_, std::min(row + lane, job_.spec.rows - 1), k, blocks,
                    [&](int64_t region, int64_t first, int64_t end) {
                      for (int64_t b = first; b < end; ++b) {
                        scratch_.tensors[b * kLanes + lane] = job_.regions.tensor[region];
                        scratch_.factors[b * kLanes + lane] = job_.regions.block[region];
                      }
                    });
}

// Every block's sixteen columns are lanes as they lie.
void ColumnEncoder::choose_scales_of(const ColumnTile& tile) {
  for (int64_t b = 0; b < tile.k / tile.block; ++b) {
    const TileValues lines = tile.values.from(b * tile.block, 0);
    SixteenBlocks blocks{.values = lines.fp32(),
                         .stride = lines.stride(),
                         .count = tile.block,
                         .amax = scratch_.amax + b * kLanes};
    if (job_.regions)
      blocks.levels = {scratch_.tensors + b * kLanes, scratch_.factors + b * kLanes};
    if (lines.is_bf16()) {  // not transformed, so that buffer is free
      for (int64_t i = 0; i < tile.block; ++i)
        widen_row(lines.from(i, 0).bf16(), kLanes, scratch_.transformed + i * kLanes);
      blocks.values = scratch_.transformed;
      blocks.stride = kLanes;
    }
    if (tile.draws != nullptr) {
      blocks.draws = tile.draws + b * tile.block * tile.draw_stride;
      blocks.draw_stride = tile.draw_stride;
    }
    choose_scales(job_, blocks, scratch_.decode + b * kLanes, scratch_.multiplier + b * kLanes);
  }
}

void ColumnEncoder::encode_sixteen(int64_t row, int64_t k, int64_t count) {
  ColumnTile tile = load(row, k, count);
  tile.block = job_.plan.block_cols;
  tile.multipliers = scratch_.multiplier;
  tile.amax = scratch_.amax;
  tile.prescale = job_.spec.cast.prescale;
  tile.unit = job_.layout.unit;
  if (job_.spec.cast.rounding == Rounding::stochastic) {
    tile.draws = scratch_.draws + (row - panel_);
    tile.draw_stride = kColumnPanel;
  }
  tile.out =
      reinterpret_cast<int8_t*>(job_.storage + job_.layout.elements_at) + job_.layout.index(row, k);
  find_scales(tile, row, k);
  const int64_t blocks = count / tile.block;
  store_scales(row, k / tile.block, blocks);
  if (nonfinite_) {
    for (int64_t b = 0; b < blocks; ++b) encode_by_definition(tile, row, k, b);
    return;
  }
  const EncodeCounts counts = encode_columns(job_.grid, tile);
  totals_.add(counts);
}

void ColumnEncoder::store_scales(int64_t row, int64_t first_block, int64_t blocks) {
  auto* scales = reinterpret_cast<float*>(job_.storage + job_.layout.scales_at);
  const int64_t rows = std::min(kLanes, job_.spec.rows - row);
  for (int64_t lane = 0; lane < rows; ++lane)
    for (int64_t b = 0; b < blocks; ++b)
      scales[(row + lane) * job_.layout.blocks + first_block + b] =
          scratch_.decode[b * kLanes + lane];
}

// Block `b` of a tile that begins at (row, k), turned so that rows are operand rows.
void ColumnEncoder::encode_by_definition(const ColumnTile& tile, int64_t row, int64_t k,
                                         int64_t b) {
  float values[kLanes * kColumnChunk];
  int8_t out[kLanes * kColumnChunk];
  const int64_t block = tile.block;
  const int64_t rows = std::min(kLanes, job_.spec.rows - row);
  for (int64_t lane = 0; lane < rows; ++lane)
    for (int64_t i = 0; i < block; ++i) values[lane * block + i] = tile.values(b * block + i, lane);
  EncodeTile turned{.values = {values, block}, .rows = rows};
  turned.cols = turned.block = turned.out_stride = block;
  turned.counted_cols = tile.counted_k - b * block;
  turned.multipliers = scratch_.multiplier + b * kLanes;
  turned.multiplier_stride = 1;
  turned.form = ElementForm::int8;
  turned.unit = tile.unit;
  turned.out = out;
  exact_encode(job_, {.row = row, .rows = rows, .k = k + b * block, .cols = block}, turned,
               scratch_.decode + b * kLanes, totals_.stats);
  auto* elements = reinterpret_cast<int8_t*>(job_.storage + job_.layout.elements_at);
  for (int64_t lane = 0; lane < kLanes; ++lane)
    for (int64_t i = 0; i < block; ++i)
      elements[job_.layout.index(row + lane, k + b * block + i)] =
          lane < rows ? out[lane * block + i] : int8_t{0};
}

}  // namespace ng::cpu
