#include "backend/cpu/quantize/panel.h"

#include <array>
#include <cmath>

#include "backend/cpu/quantize/eden.h"
#include "backend/cpu/quantize/exact.h"
#include "backend/cpu/quantize/put_product.h"
#include "backend/cpu/quantize/statistics.h"
#include "backend/cpu/quantize/subnormals.h"
#include "backend/cpu/quantize/trials.h"
#include "format/block_statistic.h"

namespace ng::cpu {

void note_amax(const TileValues& values, int64_t rows, int64_t cols, QuantizeTotals& totals) {
  uint32_t amax = 0;
  block_amax(values, rows, cols,
             {.amax = &amax, .stride = 0, .rows_per_block = rows, .block = cols});
  totals.nonfinite |= amax >= kFloatInf;
  if (amax > kFloatInf) amax = amax_without_nan(values, rows, cols);
  totals.amax = std::max(totals.amax, amax);
}

void PanelEncoder::encode(const Piece& area) {
  end_k_ = area.k + area.cols;
  for (int64_t row = area.row; row < area.row + area.rows; row += job_.plan.panel_rows)
    encode_panel(row, area);
}

void PanelEncoder::encode_panel(int64_t row, const Piece& area) {
  const bool is_last = row + job_.plan.panel_rows >= job_.spec.rows;
  if (job_.layout.interleaved && is_last) pad_rows(area);
  for_chunks(row, area, [&] {
    find_scales();
    for_pieces(job_.plan, chunk_, [&](const Piece& piece) { encode_piece(piece); });
    if (job_.spec.cast.rounding == Rounding::eden)
      for_pieces(job_.plan, chunk_, [&](const Piece& piece) { correct_scales(piece); });
    store_scales();
  });
}

void PanelEncoder::pass_back(int64_t row, const RoundingBackward& op,
                             const GradientFactor& factor) {
  end_k_ = job_.spec.k_padded();
  const int64_t rows = std::min(job_.plan.panel_rows, job_.spec.rows - row);
  for_chunks(row, {.row = row, .rows = rows, .k = 0, .cols = end_k_}, [&] {
    find_scales();
    for_pieces(job_.plan, chunk_, [&](const Piece& piece) { pass_piece(piece, op, factor); });
  });
}

// What has no scale, or is of a block that is dropped, is encoded as 0.
void PanelEncoder::pass_piece(const Piece& piece, const RoundingBackward& op,
                              const GradientFactor& factor) {
  constexpr int64_t kRun = 512;
  alignas(64) std::array<float, kRun> passed;
  const QuantizePlan& plan = job_.plan;
  const TileValues values = values_of(piece).values;
  const int64_t cols = std::min(piece.cols, op.y.cols - piece.k);
  const auto x = op.x.as<float>();
  for (int64_t r = 0; r < piece.rows; ++r)
    for (int64_t c = 0, end = 0; c < cols; c = end) {
      end = std::min({(c / plan.block_cols + 1) * plan.block_cols, c + kRun, cols});
      const int64_t block = first_block(piece) + r / plan.tile_rows * blocks_ + c / plan.block_cols;
      const float multiplier = scratch_.multiplier[block];
      const bool is_zero = std::isnan(scratch_.decode[block]) || multiplier == 0;
      multiply_by_factors(factor, {.values = values.from(r, c),
                                   .count = end - c,
                                   .prescale = is_zero ? 0 : job_.spec.cast.prescale,
                                   .multiplier = is_zero ? 1 : multiplier,
                                   .divides = job_.divides,
                                   .x = x.row(piece.row + r) + piece.k + c,
                                   .to = passed.data()});
      put_product(passed.data(), end - c, op.into, op.round, op.y, piece.row + r, piece.k + c);
    }
}

void PanelEncoder::note_amax(const Piece& area) {
  for_pieces(job_.plan, area, [&](const Piece& piece) {
    if (job_.spec.hadamard.size > 0) {
      const uint32_t amax = job_.source.amax(piece, scratch_.values);
      if (amax < kFloatInf) {
        totals_.amax = std::max(totals_.amax, amax);
        return;
      }
    }
    const TileValues values = job_.source.load(piece, scratch_.values).values;
    cpu::note_amax(values, piece.rows, piece.cols, totals_);
  });
}

int64_t PanelEncoder::tile_rows_of_chunk() const {
  return ceil_div(chunk_.rows, job_.plan.tile_rows);
}

void PanelEncoder::find_amax(bool skip_nan) {
  const QuantizePlan& plan = job_.plan;
  std::fill_n(scratch_.amax, tile_rows_of_chunk() * blocks_, 0u);
  for_pieces(plan, chunk_, [&](const Piece& piece) {
    values_ = job_.source.load(piece, scratch_.values);
    uint32_t* amax = scratch_.amax + first_block(piece);
    if (!skip_nan) {
      block_amax(values_.values, piece.rows, piece.cols,
                 {.amax = amax,
                  .stride = blocks_,
                  .rows_per_block = plan.tile_rows,
                  .block = plan.block_cols});
      return;
    }
    for (int64_t r = 0; r < piece.rows; ++r)
      for (int64_t c = 0; c < piece.cols; ++c) {
        uint32_t& block = amax[r / plan.tile_rows * blocks_ + c / plan.block_cols];
        block = std::max(block, amax_without_nan(values_.values.from(r, c), 1, 1));
      }
  });
}

void PanelEncoder::choose_by_error() {
  if (has_vector_trials(job_))
    for_pieces(job_.plan, chunk_, [&](const Piece& piece) { try_blocks(piece); });
  else
    for (int64_t i = 0; i < tile_rows_of_chunk() * blocks_; ++i) try_block(i);
}

void PanelEncoder::try_blocks(const Piece& piece) {
  const QuantizePlan& plan = job_.plan;
  if (!chunk_is_one_piece()) values_ = job_.source.load(piece, scratch_.values);
  const TileValues& values = values_.values;
  PieceDraws draws;
  if (has_drawn_trials(job_)) draws = job_.source.draw(piece, scratch_.draws, scratch_.words);
  TrialLanes lanes(job_, scratch_);
  for (int64_t r = 0; r < piece.rows; r += plan.tile_rows) {
    const int64_t rows = std::min(plan.tile_rows, piece.rows - r);
    const int64_t first = first_block(piece) + r / plan.tile_rows * blocks_;
    for (int64_t c = 0; c < piece.cols;) {
      const int64_t whole = std::max<int64_t>((piece.cols - c) / plan.block_cols, 1);
      const int64_t cols = std::min(plan.block_cols, piece.cols - c);
      const Piece tile{.row = r, .rows = rows, .k = c, .cols = cols};
      const int64_t count = rows < plan.tile_rows ? 1 : whole;
      c += plan.block_cols * lanes.add(values, draws, tile, count, first + c / plan.block_cols);
    }
  }
  lanes.flush();
}

// A block whose scale vanishes is scaled by one.
void PanelEncoder::replace_zero_scales(int64_t count) const {
  for (int64_t b = 0; b < count; ++b) {
    if (scratch_.decode[b] != 0) continue;
    const Piece at = block_at(b);
    scratch_.decode[b] = 1;
    scratch_.multiplier[b] = e4m3_multiplier(kE4m3One, job_.second_level(at.row, at.k));
  }
}

void PanelEncoder::correct_scales(const Piece& piece) {
  if (!chunk_is_one_piece()) values_ = job_.source.load(piece, scratch_.values);
  const bool by_definition = job_.exact || nonfinite_ || !is_tried(job_.grid) ||
                             job_.spec.cast.subnormals == Subnormals::flush;
  cpu::correct_scales(job_,
                      {.at = piece,
                       .values = values_.values,
                       .decode = scratch_.decode + first_block(piece),
                       .multiplier = scratch_.multiplier + first_block(piece),
                       .stride = blocks_},
                      by_definition, scratch_.draws);
}

void PanelEncoder::choose_by_statistic() {
  const Statistic rule = statistic_rule(job_.spec.cast);
  for (int64_t i = 0; i < tile_rows_of_chunk() * blocks_; ++i) {
    const float amax = float_of_bits(scratch_.amax[i]);
    if (scratch_.amax[i] >= kFloatInf || !rule.is_of(amax)) continue;
    const Piece block = block_at(i);
    const ScaleChoice choice =
        chunk_is_one_piece()
            ? statistic_scale(job_, values_.values.from(block.row - chunk_.row, block.k - chunk_.k),
                              block, amax)
            : statistic_scale(job_, block, amax, scratch_.values);
    scratch_.decode[i] = choice.decode;
    scratch_.multiplier[i] = choice.multiplier;
  }
}

Piece PanelEncoder::block_at(int64_t index) const {
  const QuantizePlan& plan = job_.plan;
  const int64_t row = index / blocks_ * plan.tile_rows;
  const int64_t col = index % blocks_ * plan.block_cols;
  return {.row = chunk_.row + row,
          .rows = std::min(plan.tile_rows, chunk_.rows - row),
          .k = chunk_.k + col,
          .cols = std::min(plan.block_cols, chunk_.cols - col)};
}

void PanelEncoder::try_block(int64_t i) {
  if (scratch_.amax[i] == 0 || scratch_.amax[i] >= kFloatInf) return;
  const ScaleChoice choice =
      choose_scale(job_, block_at(i), float_of_bits(scratch_.amax[i]), scratch_.values);
  scratch_.decode[i] = choice.decode;
  scratch_.multiplier[i] = choice.multiplier;
}

void PanelEncoder::take_stored_scales() const {
  for (int64_t i = 0; i < tile_rows_of_chunk(); ++i)
    for (int64_t b = 0; b < blocks_; ++b)
      take_stored_scale(job_, chunk_.row + i * job_.plan.tile_rows,
                        chunk_.k + b * job_.plan.block_cols, scratch_.decode[i * blocks_ + b],
                        scratch_.multiplier[i * blocks_ + b]);
}

void PanelEncoder::find_finite_amax() {
  find_amax(false);
  const int64_t count = tile_rows_of_chunk() * blocks_;
  nonfinite_ = *std::max_element(scratch_.amax, scratch_.amax + count) >= kFloatInf;
  if (nonfinite_ && job_.request.kind == ScaleKind::e4m3) find_amax(true);
}

void PanelEncoder::find_scales() {
  const int64_t count = tile_rows_of_chunk() * blocks_;
  nonfinite_ = false;
  if (!job_.scales_by_block) {
    std::fill_n(scratch_.decode, count, job_.decode);
    std::fill_n(scratch_.multiplier, count, job_.multiplier);
    return;
  }
  find_finite_amax();
  ScaleRequest request = job_.request;
  if (job_.regions) {
    take_levels();
    request.own = {scratch_.tensors, scratch_.factors};
  }
  block_scales(request, scratch_.amax, count, scratch_.decode, scratch_.multiplier);
  if (job_.spec.cast.rounding == Rounding::eden) replace_zero_scales(count);
  if (job_.context.stored.has_scales()) return take_stored_scales();
  if (scales_to_try(job_) > 1) choose_by_error();
  if (job_.spec.cast.scale_of != ScaleOf::amax) choose_by_statistic();
}

EncodeTile PanelEncoder::tile_of(const Piece& piece, const PieceValues& values) const {
  const int64_t k_padded = job_.spec.k_padded();
  const int64_t at = piece.row * k_padded + piece.k;
  EncodeTile tile{.values = values.values, .rows = piece.rows};
  const bool is_last = chunk_.k + chunk_.cols >= end_k_;
  if (values.in_place) tile.ahead = is_last ? chunk_.rows * tile.values.stride() : chunk_.cols;
  tile.cols = piece.cols;
  tile.counted_cols = job_.spec.k - piece.k;
  tile.block = job_.plan.block_cols;
  tile.multipliers = scratch_.multiplier + first_block(piece);
  if (job_.scales_by_block) tile.amax = scratch_.amax + first_block(piece);
  tile.multiplier_stride = blocks_;
  tile.rows_per_multiplier = job_.plan.tile_rows;
  tile.divides = job_.divides;
  tile.other = job_.list();
  tile.decode = scratch_.decode + first_block(piece);
  tile.prescale = job_.spec.cast.prescale;
  tile.form = job_.layout.form;
  tile.unit = job_.layout.unit;
  tile.out = job_.storage + job_.layout.elements_at + at * bytes_of(job_.layout.form);
  tile.out_stride = k_padded;
  if (job_.layout.interleaved) {
    tile.out = scratch_.codes;
    tile.out_stride = scratch_.code_stride;
  }
  return tile;
}

PieceValues PanelEncoder::values_of(const Piece& piece) const {
  // Trials of one block use the buffer; statistics where the chunk is not one piece.
  const bool is_overwritten = scales_to_try(job_) > 1 && !has_vector_trials(job_);
  const bool loaded = job_.scales_by_block && chunk_is_one_piece() && !is_overwritten;
  return loaded ? values_ : job_.source.load(piece, scratch_.values);
}

void PanelEncoder::encode_piece(const Piece& piece) {
  const PieceValues values = values_of(piece);
  bool exact = job_.exact || nonfinite_;
  if (!job_.scales_by_block && !job_.is_finite) {
    QuantizeTotals found;
    cpu::note_amax(values.values, piece.rows, piece.cols, found);
    totals_.amax = std::max(totals_.amax, found.amax);
    exact |= found.nonfinite;
  }
  EncodeTile tile = tile_of(piece, values);
  encode_values(piece, tile, exact);
  if (job_.layout.interleaved) interleave(piece);
}

void PanelEncoder::encode_values(const Piece& piece, EncodeTile& tile, bool by_definition) {
  if (by_definition)
    return exact_encode(job_, piece, tile, scratch_.decode + first_block(piece), totals_.stats);
  if (job_.spec.cast.rounding == Rounding::stochastic) {
    const PieceDraws draws = job_.source.draw(piece, scratch_.draws, scratch_.words);
    tile.draws = draws.data;
    tile.draw_stride = draws.stride;
  }
  totals_.add(tile.other != nullptr ? encode_list(job_.grid, tile) : encode_tile(job_.grid, tile));
  if (job_.spec.cast.subnormals == Subnormals::flush)
    totals_.stats.flushed += flush_subnormals(job_.grid, tile);
}

void PanelEncoder::interleave(const Piece& piece) const {
  const int64_t words = job_.layout.k_padded / 4;
  auto* to = reinterpret_cast<uint32_t*>(job_.storage + job_.layout.elements_at);
  for (int64_t r = 0; r < piece.rows;) {
    const int64_t row = piece.row + r;
    const int64_t rows = std::min(16 - row % 16, piece.rows - r);
    const auto* from = reinterpret_cast<const uint32_t*>(scratch_.codes + r * scratch_.code_stride);
    transpose_words(from, scratch_.code_stride / 4, rows, piece.cols / 4,
                    to + interleaved_word(row, piece.k / 4, words), 16);
    r += rows;
  }
}

void PanelEncoder::pad_rows(const Piece& area) const {
  const int64_t rows = job_.spec.rows;
  if (rows % 16 == 0) return;
  const int64_t at = rows / 16 * 16 * job_.layout.k_padded + 16 * area.k;
  std::fill_n(job_.storage + job_.layout.elements_at + at, 16 * area.cols, std::byte{0});
}

void PanelEncoder::store_scales() const {
  if (!job_.scales_by_block && chunk_.k > 0)
    return;  // the row's only scale is that of its first area
  auto* scales = reinterpret_cast<float*>(job_.storage + job_.layout.scales_at);
  const int64_t first = job_.scales_by_block ? chunk_.k / job_.plan.block_cols : 0;
  const int64_t count = job_.scales_by_block ? blocks_ : 1;
  for (int64_t r = 0; r < chunk_.rows; ++r)
    std::copy_n(scratch_.decode + r / job_.plan.tile_rows * blocks_, count,
                scales + (chunk_.row + r) * job_.layout.blocks + first);
}

}  // namespace ng::cpu
