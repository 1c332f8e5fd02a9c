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

/// A panel's part of the operand.
Piece panel_area(const QuantizeJob& job, int64_t row) {
  return {.row = row,
          .rows = std::min(job.panel_rows(), job.spec.rows - row),
          .k = 0,
          .cols = job.spec.k_padded()};
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

/// Whether the largest magnitude is that of the source as it lies.
bool has_amax_of_source(const QuantizeJob& job) {
  return job.spec.hadamard.size == 0 && !job.source.has_mean();
}

QuantizeTotals tensor_amax(const Workspace& workspace, const QuantizeJob& job) {
  if (job.source.view().size() == 0) return {};
  if (has_amax_of_source(job)) return source_amax(workspace, job.source);
  return over_panels(workspace, job,
                     [&](auto encoder, int64_t row) { encoder.note_amax(panel_area(job, row)); });
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
  if (job.found_amax) return *job.found_amax;
  const float* known = job.context.amax;
  if (known == nullptr) return tensor_amax(workspace, job);
  QuantizeTotals whole;
  whole.amax = float_bits(*known);
  whole.nonfinite = !std::isfinite(*known);
  return whole;
}

/// What decides the scales of an operand beside the values of each block.
enum class ScaleSource : uint8_t {
  blocks,   ///< nothing
  regions,  ///< second levels, of the values of regions
  stored,   ///< the scales of a stored tensor
  delayed,  ///< the history of largest magnitudes
  level,    ///< a second level that is a constant
  amax,     ///< the largest magnitude of the whole
};

ScaleSource scale_source(const QuantizeJob& job) {
  const Operand& cast = job.spec.cast;
  if (cast.is_unscaled()) return ScaleSource::blocks;
  if (job.regions) return ScaleSource::regions;
  if (job.context.stored.has_scales()) return ScaleSource::stored;
  if (cast.scaling == Scaling::delayed) return ScaleSource::delayed;
  if (!job.scales_by_block) return ScaleSource::amax;
  if (cast.scale != ScaleKind::e4m3) return ScaleSource::blocks;
  return cast.tensor_scale == ScaleKind::none ? ScaleSource::level : ScaleSource::amax;
}

/// Whether the job looks for the largest magnitude where it does not lie in the source.
bool looks_for_amax(const QuantizeJob& job) {
  return scale_source(job) == ScaleSource::amax && job.context.amax == nullptr &&
         !has_amax_of_source(job);
}

void take_stored_scale_of_all(QuantizeJob& job) {
  const auto& scales = job.context.stored.scales;
  if (scales.tensor != nullptr) job.request.two_level.tensor = *scales.tensor;
  if (job.scales_by_block) return;
  job.decode = scale_of_code(*scales.element, scales.data, 0);
  job.multiplier = 1.0f;
}

/// One scale for all values.
void find_scale_of_all(const Workspace& workspace, QuantizeJob& job, const QuantizeTotals& whole) {
  const Operand& cast = job.spec.cast;
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

/// Scales that more than a block's values decide.
void find_tensor_scale(const Workspace& workspace, QuantizeJob& job) {
  const Operand& cast = job.spec.cast;
  const auto second_level = [&](uint32_t amax) {
    if (cast.scale == ScaleKind::e4m3)
      job.request.two_level =
          two_level_scale(cast.tensor_scale, float_of_bits(amax), job.request.fit, cast.scale_max);
  };
  switch (scale_source(job)) {
    case ScaleSource::blocks:
      return;
    case ScaleSource::regions:
      return find_region_scales(workspace, job);
    case ScaleSource::stored:
      return take_stored_scale_of_all(job);
    case ScaleSource::delayed:
      job.multiplier = *job.context.delayed.encode_scale;
      job.decode = 1.0f / job.multiplier;
      return;
    case ScaleSource::level:
      return second_level(0);
    case ScaleSource::amax:
      break;
  }
  const QuantizeTotals whole = whole_amax(workspace, job);
  second_level(whole.amax);
  if (!job.scales_by_block) find_scale_of_all(workspace, job, whole);
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
           encoder.encode(panel_area(job, row));
         }));
}

/// body(encoder, area) for what each tile of the source becomes in both operands, while it lies in
/// the cache; the sums of what the workers counted.
template <class Body>
std::array<QuantizeTotals, 2> over_tiles(const Workspace& workspace,
                                         std::span<const QuantizeJob, 2> jobs, const Body& body) {
  const std::array totals = {totals_of(workspace, 0), totals_of(workspace, 1)};
  const int64_t tiles = source_tiles(jobs[0].source.view());
  parallel_for(workspace.threads(), tiles, [&](int64_t tile, int worker) {
    for (size_t i = 0; i < jobs.size(); ++i)
      with_encoder(workspace, jobs[i], worker, totals[i][static_cast<size_t>(worker)],
                   [&](auto encoder) { body(encoder, tile_area(jobs[i], tile)); });
  });
  return {sum_of(totals[0]), sum_of(totals[1])};
}

/// Where both look for their largest magnitudes, and not in the source as it lies.
void find_both_amax(const Workspace& workspace, std::span<QuantizeJob, 2> jobs) {
  if (!std::all_of(jobs.begin(), jobs.end(), looks_for_amax)) return;
  const auto found = over_tiles(workspace, jobs,
                                [](auto& encoder, const Piece& area) { encoder.note_amax(area); });
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].found_amax = found[i];
}

void prepare_tiles(const Workspace& workspace, std::span<QuantizeJob, 2> jobs) {
  find_both_amax(workspace, jobs);
  for (QuantizeJob& job : jobs) begin(workspace, job);
  const auto counted =
      over_tiles(workspace, jobs, [](auto& encoder, const Piece& area) { encoder.encode(area); });
  for (size_t i = 0; i < jobs.size(); ++i) finish(jobs[i], counted[i]);
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
    return prepare_tiles(workspace, jobs);
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

void roll_delayed_scale(const Operand& cast, DelayedScale state) {
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  roll_history(cast, range_of(*cast.element).max, state.encode_scale, state.history);
}

}  // namespace ng::cpu
