#include "backend/ref/operand_scale.h"

#include <algorithm>
#include <cmath>

namespace ng::ref {
namespace {

/// Σ (x - Q(x))² of an E8M0 block under one scale code, FP64, ascending, rounding to nearest.
double squared_error(const Job& job, const Region& region, uint32_t code) {
  double sum = 0;
  for (int64_t r = region.row; r < region.row_end; ++r) {
    for (int64_t k = region.k; k < region.k_end; ++k) {
      const float x = job.row(r)[k];
      const float q = job.codec.decode(job.codec.encode(x * e8m0_multiplier(code)));
      const double error = static_cast<double>(x) - static_cast<double>(q) * e8m0_value(code);
      sum += error * error;
    }
  }
  return sum;
}

uint32_t e8m0_code_of(const Job& job, const Region& region, const Amax& amax) {
  if (!amax.finite) return kE8m0NanCode;
  if (amax.value == 0) return 0;
  const ScaleRule rule = job.spec.cast.scale_rule;
  const int e = e8m0_exponent(rule, amax.value, job.range);
  const uint32_t code = e8m0_code(e);
  if (rule != ScaleRule::mse) return code;
  const uint32_t next = e8m0_code(e + 1);
  return squared_error(job, region, next) < squared_error(job, region, code) ? next : code;
}

Rounder rounder_of(const Job& job, int64_t row, int64_t k) {
  const Operand& cast = job.spec.cast;
  if (cast.rounding == Rounding::nearest) return {};
  const bool straight = job.spec.contract == Contract::cols;
  const PrepareContext& context = job.context;
  const int64_t source_row = (straight ? row : k) + context.first_row;
  const int64_t source_col = (straight ? k : row) + context.first_col;
  const int64_t cols = context.whole_cols > 0 ? context.whole_cols : job.source.cols;
  const uint32_t random =
      random_bits(context.key, static_cast<uint64_t>(source_row), static_cast<uint64_t>(source_col),
                  static_cast<uint64_t>(cols), cast.sr_bits);
  return {.mode = RoundMode::sr, .bits = cast.sr_bits, .random = random};
}

/// The decoded code of one value, in place; counts what happened to it where `stats` is non-null.
void round_element(const Job& job, const RegionCast& cast, int64_t row, int64_t k,
                   OperandStats* stats) {
  float& value = job.row(row)[k];
  const float z = value;
  if (cast.nan) {
    value = 0.0f;
    return;
  }
  const float prescaled = z * job.spec.cast.prescale;
  float y = cast.divisor != 0 ? prescaled / cast.divisor : prescaled * cast.multiplier;
  if (cast.zero) y = std::copysign(0.0f, z);
  const bool counted = stats != nullptr && std::isfinite(z);
  if (counted && std::fabs(y) > job.range.max) ++stats->saturated;
  if (cast.clamp && !std::isnan(y)) y = std::clamp(y, -job.range.max, job.range.max);
  value = job.codec.decode(job.codec.encode(y, rounder_of(job, row, k), job.overflow()));
  if (counted && z != 0 && value == 0) ++stats->flushed;
}

}  // namespace

Amax amax_of(const Job& job, const Region& region) {
  Amax amax;
  for (int64_t r = region.row; r < region.row_end; ++r) {
    for (int64_t k = region.k; k < region.k_end; ++k) {
      const float a = std::fabs(job.row(r)[k]);
      if (a > amax.value) amax.value = a;
      amax.finite = amax.finite && std::isfinite(a);
    }
  }
  return amax;
}

RegionCast scale_region(const Job& job, const Region& region, const TwoLevelScale& two_level,
                        float& stored) {
  const Operand& cast = job.spec.cast;
  Amax amax = amax_of(job, region);
  if (cast.block.kind == Block::Kind::tensor) {
    amax.value = std::max(amax.value, job.amax);
    amax.finite = amax.finite && std::isfinite(job.amax);
  }
  const float finite_amax = amax.finite ? amax.value : 0.0f;  // else the scale is 1
  const bool power = cast.scale == ScaleKind::pow2;
  if (cast.scale == ScaleKind::e8m0) {
    const uint32_t code = e8m0_code_of(job, region, amax);
    stored = e8m0_value(code);
    if (code == kE8m0NanCode) return {.nan = true};
    return {.multiplier = e8m0_multiplier(code)};
  }
  if (cast.scale == ScaleKind::e4m3) {
    const uint32_t code = e4m3_block_code(cast.scale_rule, amax.value, two_level);
    stored = decode_float(kE4m3Grid, code);
    return {.multiplier = e4m3_multiplier(code, two_level), .clamp = true, .zero = code == 0};
  }
  if (cast.scaling == Scaling::delayed) {
    float* history = job.context.delayed.history;
    const float encode_scale = *job.context.delayed.encode_scale;
    if (job.context.update_history) history[0] = std::max(history[0], amax.value);
    stored = 1.0f / encode_scale;
    return {.multiplier = encode_scale};
  }
  if (job.floating()) {
    const float encode_scale = encode_scale_of(finite_amax, job.range.max, power);
    stored = 1.0f / encode_scale;
    return {.multiplier = encode_scale};
  }
  stored = integer_scale_of(finite_amax, job.range.max, power);
  return {.divisor = stored};
}

void round_region(const Job& job, const RegionCast& cast, const Region& region) {
  for (int64_t r = region.row; r < region.row_end; ++r)
    for (int64_t k = region.k; k < region.k_end; ++k)
      round_element(job, cast, r, k, k < job.spec.k ? job.context.stats : nullptr);
}

}  // namespace ng::ref
