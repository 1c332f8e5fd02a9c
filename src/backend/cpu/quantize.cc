#include "backend/cpu/quantize.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/quantize_exact.h"
#include "backend/cpu/quantize_job.h"
#include "base/error.h"
#include "base/threads.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One slot per worker; maxima and integer sums do not depend on who found them.
std::span<QuantizeTotals> totals_of(const Workspace& workspace) {
  const auto workers = static_cast<size_t>(workspace.threads().count);
  NG_CHECK(workers * sizeof(QuantizeTotals) <= workspace.shared().size(), workers);
  auto* totals = reinterpret_cast<QuantizeTotals*>(workspace.shared().data());
  std::uninitialized_fill_n(totals, workers, QuantizeTotals{});
  return {totals, workers};
}

QuantizeTotals sum_of(std::span<const QuantizeTotals> totals) {
  QuantizeTotals sum;
  for (const QuantizeTotals& t : totals) {
    sum.stats.saturated += t.stats.saturated;
    sum.stats.flushed += t.stats.flushed;
    sum.stats.nan += t.stats.nan;
    sum.stats.inf += t.stats.inf;
    sum.amax = std::max(sum.amax, t.amax);
    sum.nonfinite |= t.nonfinite;
  }
  return sum;
}

void add_stats(const QuantizeJob& job, const OperandStats& counted) {
  if (job.context.stats == nullptr) return;
  OperandStats& stats = *job.context.stats;
  stats.values += static_cast<uint64_t>(job.spec.rows * job.spec.k);
  stats.saturated += counted.saturated;
  stats.flushed += counted.flushed;
  stats.nan += counted.nan;
  stats.inf += counted.inf;
}

// ---------------------------------------------------------------- amax of a tensor

void note_amax(const PieceValues& values, int64_t rows, int64_t cols, QuantizeTotals& totals) {
  uint32_t amax = 0;
  block_amax(values.data, values.stride, rows, cols,
             {.amax = &amax, .stride = 0, .rows_per_block = rows, .block = cols});
  totals.nonfinite |= amax >= kFloatInf;
  if (amax > kFloatInf) amax = amax_without_nan(values, rows, cols);
  totals.amax = std::max(totals.amax, amax);
}

/// Calls body(piece) for the pieces of rows [row, row + rows) × [k, k + cols), tile rows whole or
/// cut, never mixed with a part of the next.
template <class Body>
void for_pieces(const QuantizePlan& plan, const Piece& area, const Body& body) {
  for (int64_t r = 0; r < area.rows;) {
    int64_t end = std::min(r + plan.piece_rows, area.rows);
    if (plan.piece_rows < plan.tile_rows)
      end = std::min(end, (r / plan.tile_rows + 1) * plan.tile_rows);
    for (int64_t c = 0; c < area.cols; c += plan.piece_cols)
      body(Piece{.row = area.row + r,
                 .rows = end - r,
                 .k = area.k + c,
                 .cols = std::min(plan.piece_cols, area.cols - c)});
    r = end;
  }
}

QuantizeTotals tensor_amax(const Workspace& workspace, const QuantizeJob& job) {
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  const OperandSpec& spec = job.spec;
  parallel_for(workspace.threads(), ceil_div(spec.rows, job.plan.panel_rows),
               [&](int64_t panel, int worker) {
                 const int64_t row = panel * job.plan.panel_rows;
                 const int64_t rows = std::min(job.plan.panel_rows, spec.rows - row);
                 const QuantizeScratch scratch =
                     quantize_scratch(job.plan, workspace.worker(worker));
                 const Piece area{.row = row, .rows = rows, .k = 0, .cols = spec.k_padded()};
                 for_pieces(job.plan, area, [&](const Piece& piece) {
                   note_amax(job.source.load(piece, scratch.values), piece.rows, piece.cols,
                             totals[static_cast<size_t>(worker)]);
                 });
               });
  return sum_of(totals);
}

// ---------------------------------------------------------------- one panel

/// The walk of one worker over one panel.
class PanelEncoder {
 public:
  PanelEncoder(const QuantizeJob& job, std::span<std::byte> memory, QuantizeTotals& totals)
      : job_(job), scratch_(quantize_scratch(job.plan, memory)), totals_(totals) {}

  void encode(int64_t row) {
    const int64_t rows = std::min(job_.plan.panel_rows, job_.spec.rows - row);
    const int64_t k_padded = job_.spec.k_padded();
    for (int64_t k = 0; k < k_padded; k += job_.plan.chunk_cols) {
      chunk_ = {
          .row = row, .rows = rows, .k = k, .cols = std::min(job_.plan.chunk_cols, k_padded - k)};
      blocks_ = ceil_div(chunk_.cols, job_.plan.block_cols);
      find_scales();
      for_pieces(job_.plan, chunk_, [&](const Piece& piece) { encode_piece(piece); });
      store_scales();
    }
  }

 private:
  [[nodiscard]] bool chunk_is_one_piece() const {
    return chunk_.rows <= job_.plan.piece_rows && chunk_.cols <= job_.plan.piece_cols;
  }
  [[nodiscard]] int64_t tile_rows_of_chunk() const {
    return ceil_div(chunk_.rows, job_.plan.tile_rows);
  }
  /// Offset of a piece's first block in amax, decode and multiplier.
  [[nodiscard]] int64_t first_block(const Piece& piece) const {
    return (piece.row - chunk_.row) / job_.plan.tile_rows * blocks_ +
           (piece.k - chunk_.k) / job_.plan.block_cols;
  }

  void find_scales();
  void find_amax(bool skip_nan);
  void choose_by_error();
  void encode_piece(const Piece& piece);
  void store_scales() const;

  const QuantizeJob& job_;
  QuantizeScratch scratch_;
  QuantizeTotals& totals_;
  Piece chunk_;
  int64_t blocks_ = 0;  // of the chunk along K
  bool nonfinite_ = false;
  PieceValues values_;  // of the chunk where it is one piece
};

void PanelEncoder::find_amax(bool skip_nan) {
  const QuantizePlan& plan = job_.plan;
  std::fill_n(scratch_.amax, tile_rows_of_chunk() * blocks_, 0u);
  for_pieces(plan, chunk_, [&](const Piece& piece) {
    values_ = job_.source.load(piece, scratch_.values);
    uint32_t* amax = scratch_.amax + first_block(piece);
    if (!skip_nan) {
      block_amax(values_.data, values_.stride, piece.rows, piece.cols,
                 {.amax = amax,
                  .stride = blocks_,
                  .rows_per_block = plan.tile_rows,
                  .block = plan.block_cols});
      return;
    }
    for (int64_t r = 0; r < piece.rows; ++r)
      for (int64_t c = 0; c < piece.cols; ++c) {
        uint32_t& block = amax[r / plan.tile_rows * blocks_ + c / plan.block_cols];
        const PieceValues one{values_.data + r * values_.stride + c, 0};
        block = std::max(block, amax_without_nan(one, 1, 1));
      }
  });
}

void PanelEncoder::choose_by_error() {
  const QuantizePlan& plan = job_.plan;
  for (int64_t i = 0; i < tile_rows_of_chunk() * blocks_; ++i) {
    if (scratch_.amax[i] == 0 || scratch_.amax[i] >= kFloatInf) continue;
    const int64_t row = i / blocks_ * plan.tile_rows;
    const int64_t col = i % blocks_ * plan.block_cols;
    const Piece block{.row = chunk_.row + row,
                      .rows = std::min(plan.tile_rows, chunk_.rows - row),
                      .k = chunk_.k + col,
                      .cols = std::min(plan.block_cols, chunk_.cols - col)};
    const ScaleChoice choice =
        choose_scale(job_, block, float_of_bits(scratch_.amax[i]), scratch_.values);
    scratch_.decode[i] = choice.decode;
    scratch_.multiplier[i] = choice.multiplier;
  }
}

void PanelEncoder::find_scales() {
  const int64_t count = tile_rows_of_chunk() * blocks_;
  nonfinite_ = false;
  if (!job_.scales_by_block) {
    std::fill_n(scratch_.decode, count, job_.decode);
    std::fill_n(scratch_.multiplier, count, job_.multiplier);
    return;
  }
  find_amax(false);
  nonfinite_ = *std::max_element(scratch_.amax, scratch_.amax + count) >= kFloatInf;
  if (nonfinite_ && job_.request.kind == ScaleKind::e4m3) find_amax(true);
  block_scales(job_.request, scratch_.amax, count, scratch_.decode, scratch_.multiplier);
  if (job_.request.kind == ScaleKind::e8m0 && job_.request.rule == ScaleRule::mse)
    choose_by_error();
}

void PanelEncoder::encode_piece(const Piece& piece) {
  const bool by_error = job_.request.rule == ScaleRule::mse;  // which used the buffer
  const bool loaded = job_.scales_by_block && chunk_is_one_piece() && !by_error;
  const PieceValues values = loaded ? values_ : job_.source.load(piece, scratch_.values);
  bool exact = job_.exact || nonfinite_;
  if (!job_.scales_by_block) {
    QuantizeTotals found;
    note_amax(values, piece.rows, piece.cols, found);
    totals_.amax = std::max(totals_.amax, found.amax);
    exact |= found.nonfinite;
  }
  EncodeTile tile{.values = values.data,
                  .stride = values.stride,
                  .rows = piece.rows,
                  .cols = piece.cols,
                  .counted_cols = job_.spec.k - piece.k,
                  .block = job_.plan.block_cols,
                  .multipliers = scratch_.multiplier + first_block(piece),
                  .multiplier_stride = blocks_,
                  .rows_per_multiplier = job_.plan.tile_rows,
                  .divides = job_.divides,
                  .prescale = job_.spec.cast.prescale,
                  .sr_bits = job_.spec.cast.sr_bits};
  const int64_t at = piece.row * job_.spec.k_padded() + piece.k;
  tile.out = job_.storage + job_.layout.elements_at + at * job_.layout.element_bytes;
  tile.out_stride = job_.spec.k_padded();
  if (exact) {
    exact_encode(job_, piece, tile, scratch_.decode + first_block(piece), totals_.stats);
    return;
  }
  if (job_.spec.cast.rounding == Rounding::stochastic) {
    const PieceDraws draws = job_.source.draw(piece, scratch_.draws, scratch_.words);
    tile.draws = draws.data;
    tile.draw_stride = draws.stride;
  }
  const EncodeCounts counts = encode_tile(job_.grid, tile);
  totals_.stats.saturated += counts.saturated;
  totals_.stats.flushed += counts.flushed;
}

void PanelEncoder::store_scales() const {
  auto* scales = reinterpret_cast<float*>(job_.storage + job_.layout.scales_at);
  const int64_t first = job_.scales_by_block ? chunk_.k / job_.plan.block_cols : 0;
  const int64_t count = job_.scales_by_block ? blocks_ : 1;
  for (int64_t r = 0; r < chunk_.rows; ++r)
    std::copy_n(scratch_.decode + r / job_.plan.tile_rows * blocks_, count,
                scales + (chunk_.row + r) * job_.layout.blocks + first);
}

// ---------------------------------------------------------------- flags of aligned groups

/// Whether the exponents of a row's blocks [begin, end) differ by at most 3, NaN and those of
/// blocks without any element apart.
bool row_is_aligned(const QuantizeJob& job, int64_t row, int64_t begin, int64_t end) {
  const auto* scales = reinterpret_cast<const float*>(job.storage + job.layout.scales_at);
  const auto* elements = reinterpret_cast<const uint16_t*>(job.storage + job.layout.elements_at);
  uint32_t least = 255;
  uint32_t most = 0;
  for (int64_t b = begin; b < end; ++b) {
    const float scale = scales[row * job.layout.blocks + b];
    const uint32_t exponent = float_bits(scale) >> 23;
    if (exponent == 0) {  // 2^-127: zero, or next to it
      const uint16_t* x = elements + row * job.spec.k_padded() + 32 * b;
      const int64_t count = std::min<int64_t>(32, job.spec.k_padded() - 32 * b);
      if (std::all_of(x, x + count, [](uint16_t v) { return (v & 0x7FFF) == 0; })) continue;
    }
    least = std::min(least, exponent);
    most = std::max(most, exponent);
  }
  return most <= 254 && (most <= least || most - least <= 3);
}

void store_aligned(const QuantizeJob& job, int64_t row, int64_t rows) {
  auto* flags = reinterpret_cast<uint8_t*>(job.storage + job.layout.aligned_at);
  for (int64_t r = row; r < row + rows; r += 16) {
    for (int64_t g = 0; g < job.layout.groups; ++g) {
      bool aligned = true;
      for (int64_t i = r; i < std::min(r + 16, row + rows) && aligned; ++i)
        aligned = row_is_aligned(job, i, 4 * g, std::min(4 * g + 4, job.layout.blocks));
      flags[r / 16 * job.layout.groups + g] = aligned ? 1 : 0;
    }
  }
}

// ---------------------------------------------------------------- the whole operand

/// What no value is stored for: only counted.
void count_in_place(const Workspace& workspace, const QuantizeJob& job, ConstView source) {
  if (job.context.stats == nullptr) return;
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  const ElementFormat& element = *job.spec.cast.element;
  const bool rounds = element.bits < 32;
  // Half the smallest magnitude is a tie with zero, which is even.
  const float low = rounds ? min_subnormal(element) / 2 : 0.0f;
  parallel_for(workspace.threads(), source.rows, [&](int64_t row, int worker) {
    const MagnitudeCounts counts =
        count_magnitudes(source.row(row), source.cols, low, job.request.max);
    OperandStats& stats = totals[static_cast<size_t>(worker)].stats;
    stats.flushed += counts.low;
    stats.saturated += counts.high;
    stats.inf += counts.inf;
    stats.nan += counts.nan;
  });
  add_stats(job, sum_of(totals).stats);
}

/// Scales that the whole tensor decides.
void find_tensor_scale(const Workspace& workspace, QuantizeJob& job) {
  const Operand& cast = job.spec.cast;
  if (cast.is_unscaled()) return;
  if (cast.scaling == Scaling::delayed) {
    job.multiplier = *job.context.delayed.encode_scale;
    job.decode = 1.0f / job.multiplier;
    return;
  }
  const bool two_levels = cast.scale == ScaleKind::e4m3;
  const bool needs_amax = two_levels ? cast.tensor_scale != ScaleKind::none || !job.scales_by_block
                                     : !job.scales_by_block;
  if (!needs_amax && !two_levels) return;
  const QuantizeTotals whole = needs_amax ? tensor_amax(workspace, job) : QuantizeTotals{};
  if (two_levels)
    job.request.two_level =
        two_level_scale(cast.tensor_scale, float_of_bits(whole.amax), job.request.max);
  if (job.scales_by_block) return;
  const bool drops = whole.nonfinite && cast.scale != ScaleKind::e4m3;
  const uint32_t amax = drops ? kFloatInf : whole.amax;
  block_scales(job.request, &amax, 1, &job.decode, &job.multiplier);
  if (cast.scale != ScaleKind::e8m0 || cast.scale_rule != ScaleRule::mse) return;
  if (whole.nonfinite || amax == 0) return;
  const Piece all{.row = 0, .rows = job.spec.rows, .k = 0, .cols = job.spec.k_padded()};
  const QuantizeScratch scratch = quantize_scratch(job.plan, workspace.worker(0));
  const ScaleChoice choice = choose_scale(job, all, float_of_bits(amax), scratch.values);
  job.decode = choice.decode;
  job.multiplier = choice.multiplier;
}

}  // namespace

size_t operand_bytes(const OperandSpec& spec) { return packed_layout(spec).bytes; }

void prepare(Workspace& workspace, PackedOperand& packed, ConstView source,
             const PrepareContext& context) {
  const OperandSpec& spec = packed.spec;
  const bool straight = spec.contract == Contract::cols;
  NG_CHECK((straight ? source.rows : source.cols) == spec.rows, source.rows, source.cols,
           spec.rows);
  NG_CHECK((straight ? source.cols : source.rows) == spec.k, source.rows, source.cols, spec.k);
  packed.source = source;
  QuantizeJob job = quantize_job(packed, source, context);
  if (is_read_in_place(spec)) return count_in_place(workspace, job, source);
  NG_CHECK(packed.storage != nullptr && packed.bytes >= job.layout.bytes, packed.bytes,
           job.layout.bytes);
  find_tensor_scale(workspace, job);
  auto* tensor = reinterpret_cast<float*>(packed.storage + job.layout.tensor_at);
  std::fill_n(tensor, 16, 0.0f);
  tensor[0] = job.request.two_level.tensor;

  const std::span<QuantizeTotals> totals = totals_of(workspace);
  parallel_for(workspace.threads(), ceil_div(spec.rows, job.plan.panel_rows),
               [&](int64_t panel, int worker) {
                 const int64_t row = panel * job.plan.panel_rows;
                 PanelEncoder(job, workspace.worker(worker), totals[static_cast<size_t>(worker)])
                     .encode(row);
                 store_aligned(job, row, std::min(job.plan.panel_rows, spec.rows - row));
               });
  const QuantizeTotals sum = sum_of(totals);
  add_stats(job, sum.stats);
  if (spec.cast.scaling == Scaling::delayed && !spec.cast.is_unscaled() && context.update_history) {
    float& newest = context.delayed.history[0];
    newest = std::max(newest, float_of_bits(sum.amax));
  }
}

void unpack(const PackedOperand& packed, View values, uint16_t* codes) {
  const OperandSpec& spec = packed.spec;
  const ElementFormat& element = *spec.cast.element;
  NG_CHECK(values.rows == spec.rows && values.cols == spec.k_padded(), values.rows, values.cols);
  NG_CHECK(codes == nullptr || element.bits <= 16, element.name);
  const PackedLayout layout = packed_layout(spec);
  const OperandSource source(spec, packed.source, {});
  std::vector<float> buffer(static_cast<size_t>(OperandSource::buffer_floats(1, spec.k_padded())));
  for (int64_t r = 0; r < spec.rows; ++r) {
    const PieceValues in_place =
        layout.bytes == 0 ? source.load({r, 1, 0, spec.k_padded()}, buffer.data()) : PieceValues{};
    for (int64_t k = 0; k < spec.k_padded(); ++k) {
      const int64_t at = r * spec.k_padded() + k;
      float q = 0;
      if (layout.bytes == 0) {
        q = in_place.data[k];
        if (element.bits < 32) q = decode(element, encode(element, q));
      } else if (layout.element_bytes == 4) {
        q = reinterpret_cast<const float*>(packed.storage + layout.elements_at)[at];
      } else {
        const auto* patterns =
            reinterpret_cast<const uint16_t*>(packed.storage + layout.elements_at);
        q = float_of_bits(static_cast<uint32_t>(patterns[at]) << 16);
      }
      values.row(r)[k] = q;
      if (layout.bytes != 0) {
        const auto* scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
        const auto* tensor = reinterpret_cast<const float*>(packed.storage + layout.tensor_at);
        values.row(r)[k] = q * scales[r * layout.blocks + k / layout.block] * tensor[0];
      }
      if (codes != nullptr)
        codes[at] = static_cast<uint16_t>(encode(element, q, {}, OverflowRule::special));
    }
  }
}

void roll_delayed_scale(const Operand& cast, DelayedScale state) {
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  roll_history(cast, range_of(*cast.element).max, state.encode_scale, state.history);
}

}  // namespace ng::cpu
