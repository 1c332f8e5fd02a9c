#include "backend/ref/operand.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/gemm_checks.h"
#include "backend/ref/number.h"
#include "backend/ref/operand_scale.h"
#include "format/gradient_factor.h"
#include "format/hadamard.h"

namespace ng::ref {
namespace {

void load_values(const Job& job) {
  const OperandSpec& spec = job.spec;
  const Reader source(job.source);
  for (int64_t r = 0; r < spec.rows; ++r) {
    float* row = job.row(r);
    for (int64_t k = 0; k < spec.k; ++k) {
      const bool is_straight = spec.contract == Contract::cols;
      row[k] = is_straight ? source(r, k) : source(k, r);
      if (job.context.mean != nullptr) row[k] -= job.context.mean[is_straight ? k : r];
    }
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

/// eden: the scales of each row's Hadamard groups grow or shrink, so that the rounded group meets
/// the values `before` that it was made of. [linear.md 5]
void correct_scales(const Job& job, const std::vector<float>& before) {
  const OperandSpec& spec = job.spec;
  const OperandParts& parts = job.parts;
  const int64_t k_padded = spec.k_padded(), group = spec.hadamard.size;
  NG_CHECK(group > 0 && group % parts.block_cols == 0, group, parts.block_cols);
  for (int64_t r = 0; r < spec.rows; ++r) {
    float* scales = parts.scales + r * parts.scale_cols;
    for (int64_t first = 0; first < k_padded; first += group) {
      double squares = 0, products = 0;
      for (int64_t k = first; k < first + group; ++k) {
        const double y = before[static_cast<size_t>(r * k_padded + k)];
        const double v = job.row(r)[k] * scales[k / parts.block_cols] * parts.tensor_scale(r, k);
        squares += y * y;
        products += y * v;
      }
      const float correction = eden_correction(squares, products);
      for (int64_t k = first; k < first + group; k += parts.block_cols) {
        float& scale = scales[k / parts.block_cols];
        scale = eden_scale(scale, correction, spec.cast.sr_bits, random_of(job, r, k));
      }
    }
  }
}

/// Of the second level, in the blocks that lie in a region. What is stored has a scale for all.
TwoLevelScale two_level_of(const Job& job, const Region& region) {
  const Operand& cast = job.spec.cast;
  const ConstView& taken = job.context.stored;
  TwoLevelScale scale;
  if (cast.scale == ScaleKind::e4m3) {
    const bool is_whole = cast.tensor_block.kind == Block::Kind::tensor;
    const float amax = std::max(amax_of(job, region).value, is_whole ? job.amax : 0.0f);
    scale =
        two_level_scale(cast.tensor_scale, amax, first_fit(cast, job.range.max), cast.scale_max);
  }
  if (taken.has_scales()) scale.tensor = taken.scales.tensor != nullptr ? *taken.scales.tensor : 1;
  return scale;
}

/// The blocks of a region. The last region is short, and so may blocks be.
void scale_and_round(const Job& job, const Region& whole) {
  const OperandParts& parts = job.parts;
  const TwoLevelScale two_level = two_level_of(job, whole);
  parts.tensor_scale(whole.row, whole.k) = two_level.tensor;
  for (int64_t row = whole.row; row < whole.row_end; row += parts.block_rows) {
    for (int64_t k = whole.k; k < whole.k_end; k += parts.block_cols) {
      const Region region = {row, std::min(row + parts.block_rows, whole.row_end), k,
                             std::min(k + parts.block_cols, whole.k_end)};
      float& stored = parts.scale(row, k);
      RegionCast cast = scale_region(job, region, two_level, stored);
      if (job.context.stored.has_scales()) cast = take_scale(job, region, cast, stored);
      round_region(job, cast, region);
    }
  }
}

void scale_and_round(const Job& job) {
  const OperandSpec& spec = job.spec;
  const OperandParts& parts = job.parts;
  const bool corrects = spec.cast.rounding == Rounding::eden && job.rounds;
  const std::vector<float> before(job.row(0), job.row(corrects ? spec.rows : 0));
  for (int64_t row = 0; row < spec.rows; row += parts.region_rows)
    for (int64_t k = 0; k < spec.k_padded(); k += parts.region_cols)
      scale_and_round(job, {row, std::min(row + parts.region_rows, spec.rows), k,
                            std::min(k + parts.region_cols, spec.k_padded())});
  if (corrects) correct_scales(job, before);
}

/// Of loaded values.
void round_values(const Job& job) {
  const OperandSpec& spec = job.spec;
  *job.parts.tensor_scales = 1.0f;
  if (spec.cast.is_fp32()) return;
  if (spec.cast.is_unscaled())
    round_region(job, {}, {0, spec.rows, 0, spec.k_padded()});
  else
    scale_and_round(job);
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
  NG_CHECK(cast.tensor_block == Block() || cast.tensor_scale != ScaleKind::none);
  NG_CHECK(cast.overflow == Overflow::saturate || cast.element->bits >= 8 ||
               cast.element->specials != Specials::none,
           cast.element->name);
}

/// Where the parts lie in the storage, as offsets from null.
OperandParts layout_of(const OperandSpec& spec, std::byte* storage, size_t& bytes) {
  check_spec(spec);
  const Operand& cast = spec.cast;
  OperandParts parts;
  const auto size_of = [&](const Block& block, int64_t& rows, int64_t& cols) {
    const bool is_tile = block.kind == Block::Kind::tile;
    rows = is_tile                             ? block.rows
           : block.kind == Block::Kind::tensor ? std::max<int64_t>(spec.rows, 1)
                                               : 1;
    cols = is_tile ? block.cols : std::max<int64_t>(spec.k_padded(), 1);
  };
  size_of(cast.block, parts.block_rows, parts.block_cols);
  size_of(cast.tensor_block, parts.region_rows, parts.region_cols);
  const ScaleShape regions = tensor_scale_shape(cast, spec.rows, spec.k_padded());
  parts.regions_across = std::max<int64_t>(regions.cols, 1);
  if (!cast.is_unscaled()) {
    parts.scale_rows = (spec.rows + parts.block_rows - 1) / parts.block_rows;
    parts.scale_cols = (spec.k_padded() + parts.block_cols - 1) / parts.block_cols;
  }
  const int64_t elements = spec.rows * spec.k_padded();
  const int64_t scales = parts.scale_rows * parts.scale_cols;
  const int64_t regions_all = std::max<int64_t>(regions.rows * regions.cols, 1);
  bytes = static_cast<size_t>(elements + scales + regions_all) * sizeof(float);
  if (storage != nullptr) {
    parts.elements = reinterpret_cast<float*>(storage);
    parts.scales = parts.elements + elements;
    parts.tensor_scales = parts.scales + scales;
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
             .codec = ElementCodec(*spec.cast.element, spec.cast.subnormals),
             .amax = std::max(amax, context.amax != nullptr ? *context.amax : 0.0f)};
  load_values(job);
  if (context.stats != nullptr) count_nonfinite(job);
  round_values(job);
}

void perform(const Prepare& op) { prepare(*op.packed, op.source, op.context); }

void perform(const FindOperandAmax& op) {
  size_t bytes = 0;
  layout_of(op.spec, nullptr, bytes);
  std::vector<std::byte> storage(bytes);
  const PackedOperand packed{
      .spec = op.spec, .source = op.source, .storage = storage.data(), .bytes = bytes};
  PrepareContext context;
  context.mean = op.mean;
  const Job job = {.spec = op.spec,
                   .source = op.source,
                   .context = context,
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
  const OtherElement other = other_element(spec.cast);
  const Writer values(op.values);
  for (int64_t i = 0; i < op.values.rows; ++i) {
    for (int64_t k = 0; k < op.values.cols; ++k) {
      const int64_t row = op.first_row + i;
      const float q = parts.elements[row * k_padded + k];
      const float scale = parts.scale_rows != 0 ? parts.scale(row, k) : 1.0f;
      const float level = parts.scale_rows != 0 ? parts.tensor_scale(row, k) : 1.0f;
      const float value = q * scale * level;
      values.put(i, k, op.undoes_prescale ? value / spec.cast.prescale : value);
      if (op.codes == nullptr) continue;
      // Decoded codes are fixed points of the encoder; `special` keeps infinities.
      const uint32_t code =
          has_other_element(scale) ? other.code_of(q) : codec.encode(q, {}, OverflowRule::special);
      op.codes[i * op.values.cols + k] = static_cast<uint16_t>(code);
    }
  }
  if (op.scales != nullptr)
    std::copy_n(parts.scales, parts.scale_rows * parts.scale_cols, op.scales);
  const ScaleShape regions = tensor_scale_shape(spec.cast, spec.rows, k_padded);
  if (op.tensor_scale != nullptr)
    std::copy_n(parts.tensor_scales, std::max<int64_t>(regions.rows * regions.cols, 1),
                op.tensor_scale);
}

void perform(const TurnBack& op) {
  check_turn_back(op);
  const int g = op.hadamard.size;
  const Reader x(op.x);
  const Writer y(op.y);
  std::vector<float> row(static_cast<size_t>(op.x.cols));
  for (int64_t i = 0; i < op.y.rows; ++i) {
    for (int64_t k = 0; k < op.x.cols; ++k) row[static_cast<size_t>(k)] = x(i, k);
    for (int64_t k = 0; k < op.x.cols; k += g)
      hadamard_back(row.data() + k, g, op.hadamard.signs.data());
    for (int64_t k = 0; k < op.y.cols; ++k)
      y.finish(i, k, row[static_cast<size_t>(k)], op.into, op.round);
  }
}

void perform(const RoundingBackward& op) {
  check_rounding_backward(op);
  const OperandSpec& spec = op.spec;
  PrepareContext context = op.context;
  context.update_history = false;
  std::vector<std::byte> storage(operand_bytes(spec));
  const PackedOperand packed{
      .spec = spec, .source = op.source, .storage = storage.data(), .bytes = storage.size()};
  const Job job = {.spec = spec,
                   .source = op.source,
                   .context = context,
                   .parts = parts_of(packed),
                   .range = range_of(*spec.cast.element),
                   .codec = ElementCodec(*spec.cast.element, spec.cast.subnormals),
                   .amax = context.amax != nullptr ? *context.amax : 0.0f,
                   .rounds = false};
  load_values(job);
  round_values(job);
  const GradientFactor factor = gradient_factor_of(spec.cast);
  const Reader x(op.x);
  const Writer y(op.y);
  for (int64_t i = 0; i < op.y.rows; ++i)
    for (int64_t k = 0; k < op.y.cols; ++k)
      y.finish(i, k, x(i, k) * factor_at(factor, job.row(i)[k]), op.into, op.round);
}

void perform(const RollDelayedScale& op) {
  const Operand& cast = op.cast;
  NG_CHECK(cast.scaling == Scaling::delayed && cast.amax_history >= 1, cast.amax_history);
  roll_history(cast, range_of(*cast.element).max, op.state.encode_scale, op.state.history);
}

}  // namespace ng::ref
