#include "backend/cuda/kernels/one_scale.h"

#include "backend/cuda/kernels/operand_tiles.h"
#include "backend/cuda/kernels/perform.h"

namespace ng::cuda {
namespace {

struct ForgetScale {
  CardScale* scales;
  __device__ void operator()(int64_t /* row */, int64_t i) const { scales[i] = {}; }
};

/// [recipes.md §7, rule g]
struct TakeScale {
  CardScale* scale;
  const float* taken;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { scale->decode = *taken; }
};

/// Of a group by a warp; integers, so that the order does not matter.
struct FindLargestOfGroup {
  OperandGroups groups;
  CardScale* scale;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return groups; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return nullptr; }
  __device__ void operator()(const GroupPlace& /* of */, int lane,
                             const float (&x)[kMostHadamardBlocks],
                             CastCounts& /* counts */) const {
    Largest largest;
    for (const float value : x) largest.take(value);
    put_largest(largest, scale, lane);
  }
};

/// As scale_region of `ref` decides it.
struct DecideScale {
  CardScale* scale;
  float fit;
  bool is_delayed, is_power;
  const float* amax;
  DelayedScale delayed;
  bool update_history;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    float largest = float_of_bits(scale->amax);
    bool is_finite = scale->has_nan == 0 && scale->amax < kFloatInf;
    if (amax != nullptr) {
      largest = *amax > largest ? *amax : largest;
      is_finite = is_finite && (float_bits(*amax) & 0x7FFFFFFFu) < kFloatInf;
    }
    if (is_delayed && update_history && largest > delayed.history[0]) delayed.history[0] = largest;
    scale->multiplier = is_delayed ? *delayed.encode_scale
                                   : encode_scale_of(is_finite ? largest : 0.0f, fit, is_power);
    scale->decode = 1.0f / scale->multiplier;
  }
};

/// What the encoder is given of a value.
__device__ inline float scaled(const ElementCast& element, float x, float prescale,
                               const CardScale& scale) {
  return element.kind == CodeKind::exact ? x : x * prescale * scale.multiplier;
}

struct RoundGroup {
  OneScaleJob job;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return job.from; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return job.stats; }
  __device__ void operator()(const GroupPlace& of, int lane, const float (&x)[kMostHadamardBlocks],
                             CastCounts& counts) const {
    const OperandGroups& from = job.from;
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const int64_t place = of.at(b, lane);
      if (b >= from.blocks() || place >= from.k_padded) continue;
      const float y = scaled(job.element, x[b], job.prescale, *job.scale);
      const uint32_t code = code_of(job.element, y, from.draw_row(of.row, place),
                                    from.draw_col(of.row, place), from.whole_cols);
      job.codes.put(of.row, place, 1, [=](int) { return code; });
      if (job.stats == nullptr || place >= from.k) continue;
      counts.take_nonfinite(x[b]);
      counts.take_rounded(x[b], y, job.range.max, is_zero_code(job.element, code));
    }
  }
};

struct PassGroup {
  OneScaleJob job;
  PassedGradient passed;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return job.from; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return nullptr; }
  __device__ void operator()(const GroupPlace& of, int lane, const float (&x)[kMostHadamardBlocks],
                             CastCounts& /* counts */) const {
    for (int b = 0; b < kMostHadamardBlocks; ++b)
      if (b < job.from.blocks())
        passed.put(of.row, of.at(b, lane), scaled(job.element, x[b], job.prescale, *job.scale));
  }
};

struct RollHistory {
  Operand cast;
  float max;
  DelayedScale state;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    roll_history(cast, max, state.encode_scale, state.history);
  }
};

/// What FindOperandAmax has of it.
struct PutLargest {
  const CardScale* scale;
  bool drops;  ///< where a value is not finite
  float* amax;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const bool is_finite = scale->has_nan == 0 && scale->amax < kFloatInf;
    *amax = float_of_bits(is_finite || !drops ? scale->amax : kFloatInf);
  }
};

/// *job.scale, current, delayed or taken.
void find_scale(Stream stream, const OneScaleJob& job) {
  if (job.cast.is_unscaled() || job.taken != nullptr) {
    forget_scales(stream, job.scale, 1);
    if (job.taken != nullptr) for_each_place(stream, 1, 1, TakeScale{job.scale, job.taken});
    return;
  }
  const bool is_delayed = job.cast.scaling == Scaling::delayed;
  if (job.amax != nullptr || (is_delayed && !job.update_history))
    forget_scales(stream, job.scale, 1);
  else
    find_operand_largest(stream, job.from, job.scale);
  for_each_place(
      stream, 1, 1,
      DecideScale{job.scale, first_fit(job.cast, job.range.max), is_delayed,
                  job.cast.scale == ScaleKind::pow2, job.amax, job.delayed, job.update_history});
}

}  // namespace

void forget_scales(Stream stream, CardScale* scales, int64_t count) {
  for_each_place(stream, 1, count, ForgetScale{scales});
}

void find_operand_largest(Stream stream, const OperandGroups& from, CardScale* scale) {
  forget_scales(stream, scale, 1);
  for_each_group(stream, FindLargestOfGroup{from, scale});
}

void prepare_one_scale(Stream stream, const OneScaleJob& job) {
  find_scale(stream, job);
  for_each_group(stream, RoundGroup{job});
}

bool prepare_one_scale_both(Stream stream, const OneScaleJob& straight, const OneScaleJob& turned) {
  if (!straight.from.fits_tile() || !turned.from.fits_tile()) return false;
  find_scale(stream, straight);
  find_scale(stream, turned);
  return for_both_groups(stream, RoundGroup{straight}, RoundGroup{turned});
}

void pass_one_scale(Stream stream, const OneScaleJob& job, const PassedGradient& passed) {
  find_scale(stream, job);
  for_each_group(stream, PassGroup{job, passed});
}

void perform(Stream stream, const FindOperandAmax& op, const Scratch& scratch) {
  auto* scale = scratch.take<CardScale>(FindOperandAmax::kName, 1);
  find_operand_largest(stream, operand_groups(stream, op.spec, op.source, {}), scale);
  for_each_place(stream, 1, 1, PutLargest{scale, op.spec.cast.scale != ScaleKind::e4m3, op.amax});
}

void perform(Stream stream, const RollDelayedScale& op) {
  const Operand& cast = op.cast;
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  for_each_place(stream, 1, 1, RollHistory{cast, range_of(*cast.element).max, op.state});
}

}  // namespace ng::cuda
