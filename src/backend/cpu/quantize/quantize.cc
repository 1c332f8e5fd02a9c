#include "backend/cpu/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/quantize/columns.h"
#include "backend/cpu/quantize/job.h"
#include "backend/cpu/quantize/panel.h"
#include "backend/cpu/quantize/regions.h"
#include "backend/cpu/quantize/statistics.h"
#include "backend/cpu/quantize/trials.h"
#include "backend/cpu/types.h"
#include "backend/gemm_checks.h"
#include "base/error.h"
#include "base/threads.h"
#include "format/block_statistic.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

/// One slot per worker; maxima and integer sums do not depend on who found them. `index`: of the
/// operand, where two are made at once.
std::span<QuantizeTotals> totals_of(const Workspace& workspace, size_t index = 0) {
  const auto workers = static_cast<size_t>(workspace.threads().count);
  NG_CHECK((index + 1) * workers * sizeof(QuantizeTotals) <= workspace.shared().size(), workers);
  auto* totals = reinterpret_cast<QuantizeTotals*>(workspace.shared().data()) + index * workers;
  std::uninitialized_fill_n(totals, workers, QuantizeTotals{});
  return {totals, workers};
}

QuantizeTotals sum_of(std::span<const QuantizeTotals> totals) {
  QuantizeTotals sum;
  for (const QuantizeTotals& t : totals) {
    sum.stats += t.stats;
    sum.amax = std::max(sum.amax, t.amax);
    sum.nonfinite |= t.nonfinite;
  }
  return sum;
}

void add_stats(const QuantizeJob& job, OperandStats counted) {
  if (job.context.stats == nullptr) return;
  counted.values = static_cast<uint64_t>(job.spec.rows * job.spec.k);
  *job.context.stats += counted;
}

/// body(encoder) with what encodes the operand's layout.
template <class Body>
void with_encoder(const Workspace& workspace, const QuantizeJob& job, int worker,
                  QuantizeTotals& totals, const Body& body) {
  const std::span<std::byte> memory = workspace.worker(worker);
  if (job.by_columns)
    body(ColumnEncoder(job, memory, totals));
  else
    body(PanelEncoder(job, memory, totals));
}

/// body(encoder, first row) for every panel of the operand; the sum of what the workers counted.
template <class Body>
QuantizeTotals over_panels(const Workspace& workspace, const QuantizeJob& job, const Body& body) {
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  const int64_t rows = job.panel_rows();
  parallel_for(workspace.threads(), ceil_div(job.spec.rows, rows), [&](int64_t panel, int worker) {
    with_encoder(workspace, job, worker, totals[static_cast<size_t>(worker)],
                 [&](auto encoder) { body(encoder, panel * rows); });
  });
  return sum_of(totals);
}

/// What is not transformed is read as it lies, whatever the operand's direction.
QuantizeTotals source_amax(const Workspace& workspace, const OperandSource& source) {
  constexpr int64_t kRows = 16;
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  parallel_for(workspace.threads(), ceil_div(source.rows(), kRows), [&](int64_t item, int worker) {
    const int64_t first = item * kRows, rows = std::min(kRows, source.rows() - first);
    note_amax(source.values(first, 0), rows, source.cols(), totals[static_cast<size_t>(worker)]);
  });
  return sum_of(totals);
}

QuantizeTotals tensor_amax(const Workspace& workspace, const QuantizeJob& job) {
  if (job.source.view().size() == 0) return {};
  if (job.spec.hadamard.size == 0 && !job.source.has_mean())
    return source_amax(workspace, job.source);
  return over_panels(workspace, job, [](auto encoder, int64_t row) { encoder.note_amax(row); });
}

float element_at(const PackedOperand& packed, const PackedLayout& layout, int64_t at) {
  const std::byte* elements = packed.storage + layout.elements_at;
  switch (layout.form) {
    case ElementForm::int8:
      return static_cast<float>(reinterpret_cast<const int8_t*>(elements)[at]) * layout.unit;
    case ElementForm::bf16:
      return float_of_bits(uint32_t{reinterpret_cast<const uint16_t*>(elements)[at]} << 16);
    case ElementForm::fp32:
      break;
  }
  return reinterpret_cast<const float*>(elements)[at];
}

// The first elements of a row, unscaled.
void read_elements(const PackedOperand& packed, int64_t row, std::span<float> out) {
  const PackedLayout layout = packed_layout(packed.spec);
  if (layout.bytes > 0) {
    for (size_t k = 0; k < out.size(); ++k)
      out[k] = element_at(packed, layout, layout.index(row, static_cast<int64_t>(k)));
    return;
  }
  const ElementFormat& element = *packed.spec.cast.element;
  const OverflowRule rule = overflow_rule(packed.spec.cast.overflow);
  const auto cols = static_cast<int64_t>(out.size());
  std::vector<float> buffer(static_cast<size_t>(OperandSource::buffer_floats(1, cols)));
  const TileValues in_place = OperandSource(packed.spec, packed.source, {}, {})
                                  .load({row, 1, 0, cols}, buffer.data())
                                  .values;
  for (size_t k = 0; k < out.size(); ++k) {
    const float x = in_place(0, static_cast<int64_t>(k));
    out[k] = element.bits < 32 ? decode(element, encode(element, x, {}, rule)) : x;
  }
}

// Codes of a row's first elements; the second of a list's is said by the block's scale.
void codes_of(const PackedOperand& packed, int64_t row, std::span<const float> elements,
              uint16_t* codes) {
  const Operand& cast = packed.spec.cast;
  const PackedLayout layout = packed_layout(packed.spec);
  const auto* scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const OtherElement other = other_element(cast);
  for (size_t k = 0; k < elements.size(); ++k) {
    const auto block = static_cast<int64_t>(k) / std::max<int64_t>(layout.block, 1);
    const bool is_other =
        cast.other != nullptr && has_other_element(scales[row * layout.blocks + block]);
    codes[k] = static_cast<uint16_t>(
        is_other ? other.code_of(elements[k])
                 : encode(*cast.element, elements[k], {}, OverflowRule::special));
  }
}

// The first elements of a row times their scales.
void scale_elements(const PackedOperand& packed, int64_t row, std::span<float> out) {
  const PackedLayout layout = packed_layout(packed.spec);
  if (layout.bytes == 0) return;
  const auto* scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const auto* tensor = reinterpret_cast<const float*>(packed.storage + layout.tensor_at);
  const auto block = static_cast<size_t>(layout.block);
  const RegionScales regions = region_scales(packed.spec, layout, packed.storage);
  for (size_t begin = 0; begin < out.size(); begin += block) {
    const float scale = scales[row * layout.blocks + static_cast<int64_t>(begin / block)];
    const float level = regions ? regions.at(row, static_cast<int64_t>(begin)).tensor : tensor[0];
    for (size_t k = begin; k < std::min(begin + block, out.size()); ++k)
      out[k] = out[k] * scale * level;
  }
}

// The scale of each block, which lies there for every row of it.
void read_scales(const PackedOperand& packed, float* scales) {
  const PackedLayout layout = packed_layout(packed.spec);
  const Operand& cast = packed.spec.cast;
  const ScaleShape shape = scale_shape(cast, packed.spec.rows, packed.spec.k_padded());
  const auto* from = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const int64_t rows_of_block = cast.block.kind == Block::Kind::tile ? cast.block.rows : 1;
  for (int64_t r = 0; r < shape.rows; ++r)
    std::copy_n(from + r * rows_of_block * layout.blocks, shape.cols, scales + r * shape.cols);
}

// ---------------------------------------------------------------- the whole operand

/// What no value is stored for: only counted.
void count_in_place(const Workspace& workspace, const QuantizeJob& job) {
  if (job.context.stats == nullptr) return;
  const OperandSource& source = job.source;
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  const ElementFormat& element = *job.spec.cast.element;
  const bool rounds = element.bits < 32;
  // Half the smallest magnitude is a tie with zero, which is even.
  const float low = rounds ? min_subnormal(element) / 2 : 0.0f;
  parallel_for(workspace.threads(), source.rows(), [&](int64_t row, int worker) {
    OperandStats& stats = totals[static_cast<size_t>(worker)].stats;
    const MagnitudeCounts counts =
        count_magnitudes(source.values(row, 0), source.cols(), low, job.request.max);
    stats.flushed += counts.low;
    stats.saturated += counts.high;
    stats.inf += counts.inf;
    stats.nan += counts.nan;
  });
  add_stats(job, sum_of(totals).stats);
}

/// Of all that the operand is a part of: as it is known, or of the operand itself.
QuantizeTotals whole_amax(const Workspace& workspace, const QuantizeJob& job) {
  const float* known = job.context.amax;
  if (known == nullptr) return tensor_amax(workspace, job);
  QuantizeTotals whole;
  whole.amax = float_bits(*known);
  whole.nonfinite = !std::isfinite(*known);
  return whole;
}

/// Scales that the whole tensor decides.
void find_tensor_scale(const Workspace& workspace, QuantizeJob& job) {
  const Operand& cast = job.spec.cast;
  if (cast.is_unscaled()) return;
  if (job.regions) return find_region_scales(workspace, job);
  if (job.context.stored.has_scales()) {
    const auto& scales = job.context.stored.scales;
    if (scales.tensor != nullptr) job.request.two_level.tensor = *scales.tensor;
    if (job.scales_by_block) return;
    job.decode = scale_of_code(*scales.element, scales.data, 0);
    job.multiplier = 1.0f;
    return;
  }
  if (cast.scaling == Scaling::delayed) {
    job.multiplier = *job.context.delayed.encode_scale;
    job.decode = 1.0f / job.multiplier;
    return;
  }
  const bool two_levels = cast.scale == ScaleKind::e4m3;
  const bool needs_amax = two_levels ? cast.tensor_scale != ScaleKind::none || !job.scales_by_block
                                     : !job.scales_by_block;
  if (!needs_amax && !two_levels) return;
  const QuantizeTotals whole = needs_amax ? whole_amax(workspace, job) : QuantizeTotals{};
  if (two_levels)
    job.request.two_level = two_level_scale(cast.tensor_scale, float_of_bits(whole.amax),
                                            job.request.fit, cast.scale_max);
  if (job.scales_by_block) return;
  job.is_finite =
      !whole.nonfinite && (job.context.amax == nullptr || cast.scale != ScaleKind::e4m3);
  const bool drops = whole.nonfinite && cast.scale != ScaleKind::e4m3;
  const uint32_t amax = drops ? kFloatInf : whole.amax;
  block_scales(job.request, &amax, 1, &job.decode, &job.multiplier);
  job.exact |= std::isnan(job.decode);  // all codes are 0, also where the values are finite
  const bool tries = cast.scale == ScaleKind::e8m0 && cast.scale_rule == ScaleRule::mse;
  if (!tries && cast.scale_of == ScaleOf::amax) return;
  const float largest = float_of_bits(amax);
  if (whole.nonfinite || !(tries ? amax != 0 : statistic_rule(cast).is_of(largest))) return;
  const Piece all{.row = 0, .rows = job.spec.rows, .k = 0, .cols = job.spec.k_padded()};
  const QuantizeScratch scratch = quantize_scratch(job.plan, workspace.worker(0));
  const ScaleChoice choice = tries ? choose_scale(job, all, largest, scratch.values)
                                   : statistic_scale(job, all, largest, scratch.values);
  job.decode = choice.decode;
  job.multiplier = choice.multiplier;
}

// ---------------------------------------------------------------- the course of a preparation

DrawGroups groups_of(const ConstView& source, const PrepareContext& context) {
  return {context.first_group(source.cols), context.groups_of_row(source.cols)};
}

QuantizeJob job_of(const Prepare& op, const DrawGroups& groups) {
  PackedOperand& packed = *op.packed;
  const ConstView& source = op.source;
  const OperandSpec& spec = packed.spec;
  const bool straight = spec.contract == Contract::cols;
  NG_CHECK((straight ? source.rows : source.cols) == spec.rows, source.rows, source.cols,
           spec.rows);
  NG_CHECK((straight ? source.cols : source.rows) == spec.k, source.rows, source.cols, spec.k);
  packed.source = source;
  QuantizeJob job = quantize_job(packed, source, op.context, groups);
  NG_CHECK(
      is_read_in_place(spec) || (packed.storage != nullptr && packed.bytes >= job.layout.bytes),
      packed.bytes, job.layout.bytes);
  NG_CHECK(!is_read_in_place(spec) || !job.source.has_mean(), spec.rows);
  return job;
}

/// What the whole tensor decides, before any value is encoded.
void begin(const Workspace& workspace, QuantizeJob& job) {
  find_tensor_scale(workspace, job);
  if (job.regions) return;
  auto* tensor = reinterpret_cast<float*>(job.storage + job.layout.tensor_at);
  std::fill_n(tensor, 16, 0.0f);
  tensor[0] = job.request.two_level.tensor;
}

void finish(const QuantizeJob& job, const QuantizeTotals& sum) {
  add_stats(job, sum.stats);
  const Operand& cast = job.spec.cast;
  if (cast.scaling != Scaling::delayed || cast.is_unscaled() || !job.context.update_history) return;
  float& newest = job.context.delayed.history[0];
  newest = std::max(newest, float_of_bits(sum.amax));
}

void prepare_alone(const Workspace& workspace, QuantizeJob& job) {
  if (is_read_in_place(job.spec)) return count_in_place(workspace, job);
  begin(workspace, job);
  finish(job, over_panels(workspace, job, [&](auto encoder, int64_t row) {
           const int64_t rows = std::min(job.panel_rows(), job.spec.rows - row);
           encoder.encode({.row = row, .rows = rows, .k = 0, .cols = job.spec.k_padded()});
         }));
}

void prepare_tiles(const Workspace& workspace, std::span<QuantizeJob, 2> jobs, int64_t tiles) {
  for (QuantizeJob& job : jobs) begin(workspace, job);
  const std::array totals = {totals_of(workspace, 0), totals_of(workspace, 1)};
  parallel_for(workspace.threads(), tiles, [&](int64_t tile, int worker) {
    for (size_t i = 0; i < jobs.size(); ++i)
      with_encoder(workspace, jobs[i], worker, totals[i][static_cast<size_t>(worker)],
                   [&](auto encoder) { encoder.encode(tile_area(jobs[i], tile)); });
  });
  for (size_t i = 0; i < jobs.size(); ++i) finish(jobs[i], sum_of(totals[i]));
}

}  // namespace

size_t operand_bytes(const OperandSpec& spec) { return packed_layout(spec).bytes; }

void prepare(Workspace& workspace, const Prepare& op) {
  prepare(workspace, op, groups_of(op.source, op.context));
}

void prepare(Workspace& workspace, const Prepare& op, const DrawGroups& groups) {
  QuantizeJob job = job_of(op, groups);
  prepare_alone(workspace, job);
}

void find_operand_amax(Workspace& workspace, const FindOperandAmax& op) {
  PackedOperand packed;
  packed.spec = op.spec;
  PrepareContext context;
  context.mean = op.mean;
  const QuantizeJob job = quantize_job(packed, op.source, context, groups_of(op.source, context));
  const QuantizeTotals whole = tensor_amax(workspace, job);
  const bool drops = whole.nonfinite && op.spec.cast.scale != ScaleKind::e4m3;
  *op.amax = float_of_bits(drops ? kFloatInf : whole.amax);
}

void prepare_both(Workspace& workspace, const PrepareBoth& op) {
  const auto job = [&](const PrepareBoth::Made& made) {
    return job_of({made.packed, op.source, made.context}, groups_of(op.source, made.context));
  };
  std::array<QuantizeJob, 2> jobs = {job(op.made[0]), job(op.made[1])};
  const int64_t tiles = source_tiles(op.source);
  // Fewer tiles than this leave workers idle that panels would not.
  const bool are_many = tiles >= 2 * workspace.threads().count;
  if (are_many && can_be_tiled(jobs[0]) && can_be_tiled(jobs[1]))
    return prepare_tiles(workspace, jobs, tiles);
  for (QuantizeJob& alone : jobs) prepare_alone(workspace, alone);
}

void rounding_backward(Workspace& workspace, const RoundingBackward& op) {
  require_fp32(op.kName, {op.x});
  require_values(op.kName, {op.y});
  check_rounding_backward(op);
  const OperandSpec& spec = op.spec;
  PackedOperand packed;
  packed.spec = spec;
  QuantizeJob job = quantize_job(packed, op.source, op.context, groups_of(op.source, op.context));
  const ScaleShape regions = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  std::vector<float> levels(job.regions ? static_cast<size_t>(2 * regions.rows * regions.cols) : 0);
  job.regions.tensor = levels.data();
  job.regions.block = levels.data() + levels.size() / 2;
  find_tensor_scale(workspace, job);
  const GradientFactor factor = gradient_factor_of(spec.cast);
  const std::span<QuantizeTotals> totals = totals_of(workspace);
  const int64_t rows = job.plan.panel_rows;
  parallel_for(workspace.threads(), ceil_div(spec.rows, rows), [&](int64_t panel, int worker) {
    PanelEncoder(job, workspace.worker(worker), totals[static_cast<size_t>(worker)])
        .pass_back(panel * rows, op, factor);
  });
}

void unpack(Threads threads, const Unpack& op) {
  const PackedOperand& packed = *op.packed;
  const OperandSpec& spec = packed.spec;
  const ElementFormat& element = *spec.cast.element;
  require_fp32(op.kName, {op.values});
  const Rows<float> values = op.values.as<float>();
  NG_CHECK(op.first_row >= 0 && op.first_row + values.rows <= spec.rows, op.first_row, values.rows);
  NG_CHECK(values.cols <= spec.k_padded(), values.cols, spec.k_padded());
  NG_CHECK(op.codes == nullptr || element.bits <= 16, element.name);
  const auto cols = static_cast<size_t>(values.cols);
  parallel_for(threads, values.rows, [&](int64_t r, int) {
    const std::span<float> row(values.row(r), cols);
    read_elements(packed, op.first_row + r, row);
    if (op.codes != nullptr)
      codes_of(packed, op.first_row + r, row, op.codes + static_cast<size_t>(r) * cols);
    scale_elements(packed, op.first_row + r, row);
    if (op.undoes_prescale && spec.cast.prescale != 1)
      for (float& value : row) value /= spec.cast.prescale;
  });
  if (spec.cast.is_unscaled()) return;
  if (op.scales != nullptr) read_scales(packed, op.scales);
  if (op.tensor_scale == nullptr) return;
  const ScaleShape levels = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  std::copy_n(reinterpret_cast<const float*>(packed.storage + packed_layout(spec).tensor_at),
              levels.rows * levels.cols, op.tensor_scale);
}

void roll_delayed_scale(const Operand& cast, DelayedScale state) {
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  roll_history(cast, range_of(*cast.element).max, state.encode_scale, state.history);
}

}  // namespace ng::cpu
