#include "backend/ref/operand.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/number.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "format/scale.h"

namespace ng::ref {
namespace {

/// Everything one call of prepare needs to know.
struct Job {
  const OperandSpec& spec;
  ConstView source;
  const PrepareContext& context;
  OperandParts parts;
  ElementRange range;
  ElementCodec codec;
  float amax = 0;  ///< of what the whole operand is a part of

  [[nodiscard]] bool floating() const { return spec.cast.element->kind == ElementKind::floating; }
  [[nodiscard]] float* row(int64_t r) const { return parts.elements + r * spec.k_padded(); }
  [[nodiscard]] OverflowRule overflow() const { return overflow_rule(spec.cast.overflow); }
};

/// Values that share a scale: operand rows [row, row_end) × [k, k_end) along the reduction.
struct Region {
  int64_t row, row_end, k, k_end;
};

/// How the values of a region become codes: `multiplier` is applied after the prescale, or
/// `divisor` where it is not 0.
struct RegionCast {
  float multiplier = 1;
  float divisor = 0;
  bool clamp = false;  ///< to ± the largest element before rounding [formats.md §4.1, step 5]
  bool zero = false;   ///< the scale is zero: codes are signed zeros
  bool nan = false;    ///< the scale is NaN: codes are zero
};

struct Amax {
  float value = 0;  ///< NaN skipped
  bool finite = true;
};

void load_values(const Job& job) {
  const OperandSpec& spec = job.spec;
  const Reader source(job.source);
  for (int64_t r = 0; r < spec.rows; ++r) {
    float* row = job.row(r);
    for (int64_t k = 0; k < spec.k; ++k)
      row[k] = spec.contract == Contract::cols ? source(r, k) : source(k, r);
    std::fill(row + spec.k, row + spec.k_padded(), 0.0f);
    const int g = spec.hadamard.size;
    for (int64_t k = 0; g != 0 && k < spec.k_padded(); k += g)
      hadamard_transform(row + k, g, spec.hadamard.signs.data());
  }
}

void count_nonfinite(const Job& job) {
  OperandStats& stats = *job.context.stats;
  stats.values += static_cast<uint64_t>(job.spec.rows * job.spec.k);
  for (int64_t r = 0; r < job.spec.rows; ++r) {
    for (int64_t k = 0; k < job.spec.k; ++k) {
      stats.nan += std::isnan(job.row(r)[k]) ? 1 : 0;
      stats.inf += std::isinf(job.row(r)[k]) ? 1 : 0;
    }
  }
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

/// The scale of one region: the number stored and how its values are rounded with it.
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

void round_region(const Job& job, const RegionCast& cast, const Region& region) {
  for (int64_t r = region.row; r < region.row_end; ++r)
    for (int64_t k = region.k; k < region.k_end; ++k)
      round_element(job, cast, r, k, k < job.spec.k ? job.context.stats : nullptr);
}

/// The scale of a region of a stored tensor, by whose elements its values are given. [recipes.md
/// §7, rule g]
RegionCast take_scale(const Job& job, const Region& region, const RegionCast& otherwise,
                      float& stored) {
  const PrepareContext& context = job.context;
  const std::optional<int64_t> at = context.stored_scale(job.spec, region.row, region.k);
  if (!at) return otherwise;
  const auto& scales = context.stored.scales;
  const int bits = scales.element->bits;
  stored = decode(*scales.element, code_at(scales.data, *at * bits, bits));
  return {};
}

void scale_and_round(const Job& job) {
  const OperandSpec& spec = job.spec;
  const OperandParts& parts = job.parts;
  const Region whole = {0, spec.rows, 0, spec.k_padded()};
  TwoLevelScale two_level;
  if (spec.cast.scale == ScaleKind::e4m3) {
    const float amax = std::max(amax_of(job, whole).value, job.amax);
    two_level = two_level_scale(spec.cast.tensor_scale, amax, job.range.max);
  }
  const ConstView& taken = job.context.stored;
  if (taken.has_scales())
    two_level.tensor = taken.scales.tensor != nullptr ? *taken.scales.tensor : 1;
  *parts.tensor_scale = two_level.tensor;
  for (int64_t i = 0; i < parts.scale_rows; ++i) {
    for (int64_t j = 0; j < parts.scale_cols; ++j) {
      const Region region = {i * parts.block_rows, std::min((i + 1) * parts.block_rows, spec.rows),
                             j * parts.block_cols,
                             std::min((j + 1) * parts.block_cols, spec.k_padded())};
      float& stored = parts.scales[i * parts.scale_cols + j];
      RegionCast cast = scale_region(job, region, two_level, stored);
      if (taken.has_scales()) cast = take_scale(job, region, cast, stored);
      round_region(job, cast, region);
    }
  }
}

void check_spec(const OperandSpec& spec) {
  const Operand& cast = spec.cast;
  NG_CHECK(cast.element != nullptr);
  NG_CHECK(cast.element->kind != ElementKind::power && cast.element->is_signed, cast.element->name);
  NG_CHECK(spec.rows >= 0 && spec.k >= 0 && spec.k_multiple >= 1, spec.rows, spec.k,
           spec.k_multiple);
  const int g = spec.hadamard.size;
  NG_CHECK(g == 0 || (is_hadamard_size(g) && spec.k_padded() % g == 0), g, spec.k_padded());
  NG_CHECK(cast.block.kind != Block::Kind::tile || (cast.block.rows > 0 && cast.block.cols > 0),
           cast.block.rows, cast.block.cols);
  NG_CHECK(cast.scaling != Scaling::delayed || cast.block.kind == Block::Kind::tensor);
  NG_CHECK(cast.tensor_scale == ScaleKind::none || cast.scale == ScaleKind::e4m3);
  NG_CHECK(cast.overflow == Overflow::saturate || cast.element->bits >= 8 ||
               cast.element->specials != Specials::none,
           cast.element->name);
}

/// Where the parts lie in the storage, as offsets from null.
OperandParts layout_of(const OperandSpec& spec, std::byte* storage, size_t& bytes) {
  check_spec(spec);
  const Operand& cast = spec.cast;
  OperandParts parts;
  parts.block_rows = std::max<int64_t>(spec.rows, 1);
  parts.block_cols = std::max<int64_t>(spec.k_padded(), 1);
  if (cast.block.kind != Block::Kind::tensor) parts.block_rows = 1;
  if (cast.block.kind == Block::Kind::tile) {
    parts.block_rows = cast.block.rows;
    parts.block_cols = cast.block.cols;
  }
  if (!cast.is_unscaled()) {
    parts.scale_rows = (spec.rows + parts.block_rows - 1) / parts.block_rows;
    parts.scale_cols = (spec.k_padded() + parts.block_cols - 1) / parts.block_cols;
  }
  const int64_t elements = spec.rows * spec.k_padded();
  const int64_t scales = parts.scale_rows * parts.scale_cols;
  bytes = static_cast<size_t>(elements + scales + 1) * sizeof(float);
  if (storage != nullptr) {
    parts.elements = reinterpret_cast<float*>(storage);
    parts.scales = parts.elements + elements;
    parts.tensor_scale = parts.scales + scales;
  }
  return parts;
}

}  // namespace

OperandParts parts_of(const PackedOperand& packed) {
  size_t bytes = 0;
  OperandParts parts = layout_of(packed.spec, packed.storage, bytes);
  NG_CHECK(packed.storage != nullptr && packed.bytes >= bytes, packed.bytes, bytes);
  return parts;
}

size_t operand_bytes(const OperandSpec& spec) {
  size_t bytes = 0;
  layout_of(spec, nullptr, bytes);
  return bytes;
}

void prepare(PackedOperand& packed, const ConstView& source, const PrepareContext& context,
             float amax) {
  const OperandSpec& spec = packed.spec;
  const bool straight = spec.contract == Contract::cols;
  NG_CHECK((straight ? source.rows : source.cols) == spec.rows, source.rows, source.cols,
           spec.rows);
  NG_CHECK((straight ? source.cols : source.rows) == spec.k, source.rows, source.cols, spec.k);
  packed.source = source;
  Job job = {.spec = spec,
             .source = source,
             .context = context,
             .parts = parts_of(packed),
             .range = range_of(*spec.cast.element),
             .codec = ElementCodec(*spec.cast.element),
             .amax = std::max(amax, context.amax != nullptr ? *context.amax : 0.0f)};
  load_values(job);
  if (context.stats != nullptr) count_nonfinite(job);
  *job.parts.tensor_scale = 1.0f;
  if (spec.cast.is_fp32()) return;
  if (spec.cast.is_unscaled()) {
    round_region(job, {}, {0, spec.rows, 0, spec.k_padded()});
  } else {
    scale_and_round(job);
  }
}

void perform(const Prepare& op) { prepare(*op.packed, op.source, op.context); }

void perform(const FindOperandAmax& op) {
  size_t bytes = 0;
  layout_of(op.spec, nullptr, bytes);
  std::vector<std::byte> storage(bytes);
  const PackedOperand packed{
      .spec = op.spec, .source = op.source, .storage = storage.data(), .bytes = bytes};
  const Job job = {.spec = op.spec,
                   .source = op.source,
                   .context = {},
                   .parts = parts_of(packed),
                   .range = range_of(*op.spec.cast.element),
                   .codec = ElementCodec(*op.spec.cast.element)};
  load_values(job);
  const Amax amax = amax_of(job, {0, op.spec.rows, 0, op.spec.k_padded()});
  const bool drops = !amax.finite && op.spec.cast.scale != ScaleKind::e4m3;
  *op.amax = drops ? std::numeric_limits<float>::infinity() : amax.value;
}

void perform(const PrepareBoth& op) {
  for (const PrepareBoth::Made& made : op.made) prepare(*made.packed, op.source, made.context);
}

void perform(const Unpack& op) {
  const OperandSpec& spec = op.packed->spec;
  const OperandParts parts = parts_of(*op.packed);
  const int64_t k_padded = spec.k_padded();
  NG_CHECK(
      op.first_row >= 0 && op.first_row + op.values.rows <= spec.rows && op.values.cols <= k_padded,
      op.first_row, op.values.rows, op.values.cols);
  NG_CHECK(op.codes == nullptr || spec.cast.element->bits <= 16, spec.cast.element->name);
  const ElementCodec codec(*spec.cast.element);
  const Writer values(op.values);
  for (int64_t i = 0; i < op.values.rows; ++i) {
    for (int64_t k = 0; k < op.values.cols; ++k) {
      const int64_t row = op.first_row + i;
      const float q = parts.elements[row * k_padded + k];
      const float scale = parts.scale_rows != 0 ? parts.scale(row, k) : 1.0f;
      values.put(i, k, q * scale * *parts.tensor_scale);
      if (op.codes == nullptr) continue;
      // Decoded codes are fixed points of the encoder; `special` keeps infinities.
      const uint32_t code = codec.encode(q, {}, OverflowRule::special);
      op.codes[i * op.values.cols + k] = static_cast<uint16_t>(code);
    }
  }
}

void perform(const RollDelayedScale& op) {
  const Operand& cast = op.cast;
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  roll_history(cast, range_of(*cast.element).max, op.state.encode_scale, op.state.history);
}

}  // namespace ng::ref
