#include "backend/ref/operand_scale.h"

#include <algorithm>
#include <cmath>

#include "format/block_statistic.h"

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

/// Of finite values that a statistic is of.
float statistic_of(const Job& job, const Region& region, float amax) {
  const int64_t cols = region.k_end - region.k;
  return scale_statistic(statistic_rule(job.spec.cast), job.range.max, amax,
                         (region.row_end - region.row) * cols, [&](const auto& use) {
                           for (int64_t r = region.row; r < region.row_end; ++r)
                             for (int64_t k = region.k; k < region.k_end; ++k)
                               use((r - region.row) * cols + k - region.k, job.row(r)[k]);
                         });
}

uint32_t e8m0_code_of(const Job& job, const Region& region, const Amax& amax) {
  if (!amax.finite) return kE8m0NanCode;
  if (amax.value == 0) return 0;
  const ScaleRule rule = job.spec.cast.scale_rule;
  if (job.spec.cast.scale_of != ScaleOf::amax) {
    const float t = statistic_of(job, region, amax.value);
    return t > 0 ? e8m0_code(e8m0_exponent(rule, t)) : 0;
  }
  const int e = e8m0_exponent(rule, amax.value, job.range);
  const uint32_t code = e8m0_code(e);
  if (rule != ScaleRule::mse) return code;
  const uint32_t next = e8m0_code(e + 1);
  return squared_error(job, region, next) < squared_error(job, region, code) ? next : code;
}

Rounder rounder_of(const Job& job, int64_t row, int64_t k) {
  const Operand& cast = job.spec.cast;
  if (cast.rounding != Rounding::stochastic) return {};
  return {.mode = RoundMode::sr, .bits = cast.sr_bits, .random = random_of(job, row, k)};
}

/// What the encoder is given of a value.
float scaled(const Job& job, const RegionCast& cast, float z) {
  if (cast.zero) return std::copysign(0.0f, z);
  const float prescaled = z * job.spec.cast.prescale;
  return cast.divisor != 0 ? prescaled / cast.divisor : prescaled * cast.multiplier;
}

/// The decoded code of what the encoder is given.
float rounded(const Job& job, const RegionCast& cast, float y, const Rounder& rounder) {
  if (cast.other) return job.other.rounded(y, rounder);
  if (cast.clamp && !std::isnan(y)) y = std::clamp(y, -job.range.max, job.range.max);
  return job.codec.decode(job.codec.encode(y, rounder, job.overflow()));
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
  const float y = scaled(job, cast, z);
  const bool counted = stats != nullptr && std::isfinite(z);
  if (counted && std::fabs(y) > job.range.max) ++stats->saturated;
  value = job.rounds ? rounded(job, cast, y, rounder_of(job, row, k)) : y;
  if (counted && z != 0 && value == 0) ++stats->flushed;
}

/// A scale that a region may take: how its values are rounded, and what is stored.
struct Candidate {
  RegionCast cast;
  float stored = 1;
};

/// That which brings the region's largest magnitude to the element value `fit`.
Candidate candidate_of(const Job& job, const Amax& amax, const TwoLevelScale& two_level,
                       float fit) {
  const Operand& cast = job.spec.cast;
  const float finite_amax = amax.finite ? amax.value : 0.0f;  // else the scale is 1
  const bool power = cast.scale == ScaleKind::pow2;
  if (cast.scale == ScaleKind::e4m3) {
    const float refit = first_fit(cast, job.range.max) / fit;
    uint32_t code = e4m3_block_code(cast.scale_rule, amax.value, two_level, refit);
    if (code == 0 && cast.rounding == Rounding::eden) code = kE4m3One;
    return {{.multiplier = e4m3_multiplier(code, two_level), .clamp = true, .zero = code == 0},
            decode_float(e4m3_grid(), code)};
  }
  if (!job.floating()) {
    const float scale = integer_scale_of(finite_amax, fit, power);
    return {{.divisor = scale}, scale};
  }
  const float encode_scale = encode_scale_of(finite_amax, fit, power);
  return {{.multiplier = encode_scale}, 1.0f / encode_scale};
}

/// How far decoded values are from those of the region, as `select` has it: FP64, in the order of
/// the untransposed source, its rows first, so that a tile of W and that of Wᵀ choose alike. What
/// is NaN is no largest error.
double error_of(const Job& job, const Region& region, const Candidate& candidate, float tensor) {
  const Select select = job.spec.cast.select;
  double error = 0;
  const auto add = [&](int64_t row, int64_t k) {
    const float x = job.row(row)[k];
    const float q =
        rounded(job, candidate.cast, scaled(job, candidate.cast, x), rounder_of(job, row, k));
    const double off = std::fabs(double{q * candidate.stored * tensor} - double{x});
    if (select == Select::max)
      error = off > error ? off : error;
    else
      error += select == Select::mse ? off * off : off;
  };
  if (job.spec.contract == Contract::cols) {
    for (int64_t row = region.row; row < region.row_end; ++row)
      for (int64_t k = region.k; k < region.k_end; ++k) add(row, k);
  } else {
    for (int64_t k = region.k; k < region.k_end; ++k)
      for (int64_t row = region.row; row < region.row_end; ++row) add(row, k);
  }
  return error;
}

/// That of the cast's list of fits or elements: the latter share the scale, which is negative where
/// the second is taken.
Candidate listed_candidate(const Job& job, const Amax& amax, const TwoLevelScale& two_level,
                           int i) {
  const Operand& cast = job.spec.cast;
  if (cast.other == nullptr) return candidate_of(job, amax, two_level, cast.fit[i]);
  Candidate listed = candidate_of(job, amax, two_level, first_fit(cast, job.range.max));
  listed.cast.other = true;
  listed.stored = -listed.stored;
  return listed;
}

/// Of the cast's fits or elements the one with the smallest error, the first of equals.
Candidate best_candidate(const Job& job, const Region& region, const Amax& amax,
                         const TwoLevelScale& two_level) {
  const Operand& cast = job.spec.cast;
  Candidate best = candidate_of(job, amax, two_level, first_fit(cast, job.range.max));
  if (choices_of(cast) < 2) return best;
  double least = error_of(job, region, best, two_level.tensor);
  for (int i = 1; i < choices_of(cast); ++i) {
    const Candidate other = listed_candidate(job, amax, two_level, i);
    const double error = error_of(job, region, other, two_level.tensor);
    if (!(error < least)) continue;
    least = error;
    best = other;
  }
  return best;
}

}  // namespace

uint32_t random_of(const Job& job, int64_t row, int64_t k) {
  const bool straight = job.spec.contract == Contract::cols;
  const PrepareContext& context = job.context;
  const int64_t source_row = (straight ? row : k) + context.first_row;
  const int64_t source_col = (straight ? k : row) + context.first_col;
  const int64_t cols = context.whole_cols > 0 ? context.whole_cols : job.source.cols;
  return random_bits(context.key, static_cast<uint64_t>(source_row),
                     static_cast<uint64_t>(source_col), static_cast<uint64_t>(cols),
                     job.spec.cast.sr_bits);
}

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
  if (cast.scale == ScaleKind::e8m0) {
    const uint32_t code = e8m0_code_of(job, region, amax);
    stored = e8m0_value(code);
    if (code == kE8m0NanCode) return {.nan = true};
    return {.multiplier = e8m0_multiplier(code)};
  }
  if (cast.scaling == Scaling::delayed) {
    float* history = job.context.delayed.history;
    const float encode_scale = *job.context.delayed.encode_scale;
    if (job.context.update_history) history[0] = std::max(history[0], amax.value);
    stored = 1.0f / encode_scale;
    return {.multiplier = encode_scale};
  }
  if (cast.scale_of == ScaleOf::mean_abs && amax.finite && statistic_rule(cast).is_of(amax.value)) {
    stored = statistic_of(job, region, amax.value);
    return {.divisor = stored};
  }
  const Candidate best = best_candidate(job, region, amax, two_level);
  stored = best.stored;
  return best.cast;
}

void round_region(const Job& job, const RegionCast& cast, const Region& region) {
  for (int64_t r = region.row; r < region.row_end; ++r)
    for (int64_t k = region.k; k < region.k_end; ++k)
      round_element(job, cast, r, k, k < job.spec.k ? job.context.stats : nullptr);
}

}  // namespace ng::ref
