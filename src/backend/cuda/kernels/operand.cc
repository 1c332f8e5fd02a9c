#include "backend/cuda/kernels/operand.h"

#include <algorithm>
#include <array>

#include "backend/cuda/kernels/block_operand.h"
#include "backend/cuda/kernels/mx_operand.h"
#include "backend/cuda/kernels/one_scale.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/gemm_checks.h"

namespace ng::cuda {
namespace {

bool is_read_in_place(const OperandSpec& spec) {
  const std::string_view element = spec.cast.element->short_name;
  return spec.cast.is_unscaled() && spec.cast.rounding == Rounding::nearest &&
         spec.cast.prescale == 1.0f && spec.hadamard.size == 0 &&
         (element == "fp32" || element == "bf16" || element == "fp16");
}

bool is_mx(const OperandSpec& spec) {
  const Operand& cast = spec.cast;
  return cast.scale == ScaleKind::e8m0 && cast.tensor_scale == ScaleKind::none &&
         cast.scaling == Scaling::current &&
         cast.block == Block{.kind = Block::Kind::tile, .rows = 1, .cols = kMxBlock} &&
         cast.element->kind == ElementKind::floating && cast.element->bits <= 8 &&
         cast.scale_rule != ScaleRule::mse && cast.scale_of == ScaleOf::amax &&
         cast.rounding != Rounding::eden && cast.subnormals == Subnormals::keep &&
         spec.k_padded() % kMxBlock == 0;
}

/// Without scale, or floats with one of their largest magnitude.
bool has_one_scale(const OperandSpec& spec) {
  const Operand& cast = spec.cast;
  if (cast.is_unscaled()) return true;
  return cast.block.kind == Block::Kind::tensor &&
         (cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2) &&
         cast.element->kind == ElementKind::floating && cast.scale_of == ScaleOf::amax;
}

/// Where a CardScale lies behind what takes `bytes`.
size_t scale_place(size_t bytes) {
  return (bytes + alignof(CardScale) - 1) / alignof(CardScale) * alignof(CardScale);
}

/// As how many bits codes are stored.
int code_bits(const OperandSpec& spec) {
  const Operand& cast = spec.cast;
  const bool has_pairs = cast.block.kind == Block::Kind::tile && cast.block.cols % 2 == 0;
  if (cast.element->bits <= 4 && has_pairs && !has_one_scale(spec)) return 4;
  return cast.element->bits <= 8 ? 8 : cast.element->bits <= 16 ? 16 : 32;
}

size_t code_bytes(const OperandSpec& spec) {
  return static_cast<size_t>(spec.rows * spec.k_padded()) * static_cast<size_t>(code_bits(spec)) /
         8;
}

/// Operand rows and values along K that share a scale.
struct Shares {
  int64_t rows, cols;
};
Shares shares_of(const Block& block, const OperandSpec& spec) {
  if (block.kind == Block::Kind::tile) return {block.rows, block.cols};
  const bool is_whole = block.kind == Block::Kind::tensor;
  return {is_whole ? std::max<int64_t>(spec.rows, 1) : 1, std::max<int64_t>(spec.k_padded(), 1)};
}

/// Scales of blocks as they are stored behind `codes`.
BlockScales block_scales(const OperandSpec& spec, uint8_t* data) {
  const auto [height, width] = shares_of(spec.cast.block, spec);
  return {data, spec.cast.scale, height, width, (spec.k_padded() + width - 1) / width};
}

size_t block_scale_bytes(const OperandSpec& spec) {
  const BlockScales scales = block_scales(spec, nullptr);
  const int64_t count = (spec.rows + scales.block_rows - 1) / scales.block_rows * scales.across;
  return static_cast<size_t>(count * scale_bits(spec.cast) / 8);
}

/// Where scales begin that are numbers of four bytes.
size_t block_scale_place(const OperandSpec& spec) {
  return has_scale_codes(spec.cast) ? code_bytes(spec) : scale_place(code_bytes(spec));
}

void require_operand(const OperandSpec& spec) {
  if (spec.cast.rounding == Rounding::eden && spec.hadamard.size == 0)
    throw Unsupported("cuda: operands in " + describe(spec.cast) + " without a Hadamard transform");
}

/// The only scale, or those of the second level, which are stored behind all else.
CardScales card_scales(const OperandSpec& spec) {
  const bool is_only = has_one_scale(spec);
  if (!is_only && spec.cast.scale != ScaleKind::e4m3) return {.count = 0};
  if (is_only || spec.cast.tensor_block.kind == Block::Kind::tensor) return {};
  const auto [height, width] = shares_of(spec.cast.tensor_block, spec);
  const ScaleShape shape = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  return {nullptr, height, width, shape.cols, shape.rows * shape.cols};
}
size_t bytes_of(const CardScales& scales) {
  return static_cast<size_t>(scales.count) * sizeof(CardScale);
}

/// Shape, cast and blocks of one.
CardOperand operand_without_storage(const OperandSpec& spec) {
  require_operand(spec);
  CardOperand operand;
  operand.is_turned = spec.contract == Contract::rows;
  operand.element = element_cast(spec.cast, {});
  operand.other = other_element(spec.cast);
  operand.lists = spec.cast.other != nullptr;
  operand.stored = !is_read_in_place(spec);
  operand.rows = spec.rows;
  operand.k = spec.k;
  operand.k_padded = spec.k_padded();
  operand.codes = {nullptr, spec.k_padded(), code_bits(spec)};
  operand.second = card_scales(spec);
  operand.folded = spec.cast.has_folded_scales();
  if (has_one_scale(spec)) return operand;
  operand.blocked = spec.cast.block.kind == Block::Kind::tile;
  operand.scales = block_scales(spec, nullptr);
  return operand;
}

/// Of an operand that is read in place.
struct CountRow {
  CardOperand operand;
  float max;
  OperandStats* stats;
  __device__ void operator()(int64_t row, int lane) const {
    if (row == 0 && lane == 0) count_values(stats, operand.rows * operand.k);
    CastCounts counts;
    for (int64_t k = lane; k < operand.k; k += kWarp) {
      const float z = operand.is_turned ? operand.source(k, row) : operand.source(row, k);
      counts.take_nonfinite(z);
      if (operand.element.kind != CodeKind::exact)
        counts.take_rounded(z, z, max, operand.element_at(row, k) == 0);
    }
    counts.put(stats, lane);
  }
};

OneScaleJob one_scale_job(const OperandSpec& spec, const CardOperand& operand,
                          const OperandGroups& from, const PrepareContext& context) {
  return {.from = from,
          .element = operand.element,
          .range = range_of(*spec.cast.element),
          .prescale = spec.cast.prescale,
          .codes = operand.codes,
          .scale = operand.second.data,
          .stats = context.stats,
          .cast = spec.cast,
          .amax = context.amax,
          .delayed = context.delayed,
          .update_history = context.update_history,
          .taken = reinterpret_cast<const float*>(context.stored.scales.data)};
}

BlockJob block_job(const OperandSpec& spec, const CardOperand& operand, const OperandGroups& from,
                   const PrepareContext& context) {
  const bool takes = context.stored.has_scales();
  return {.values = {.from = from},
          .y = operand,
          .rule = {.cast = spec.cast,
                   .range = range_of(*spec.cast.element),
                   .element = operand.element,
                   .other = operand.other,
                   .statistic = statistic_rule(spec.cast),
                   .second = operand.second},
          .amax = context.amax,
          .stats = context.stats,
          .taken = takes ? stored_source(context.stored) : StoredSource{}};
}

MxJob mx_job(const OperandSpec& spec, const CardOperand& operand, const OperandGroups& from,
             const PrepareContext& context) {
  return {.from = from,
          .cast = {.element = operand.element,
                   .range = range_of(*spec.cast.element),
                   .rule = spec.cast.scale_rule,
                   .prescale = spec.cast.prescale,
                   .four_bits = operand.codes.bits == 4},
          .y = operand.mx(),
          .stats = context.stats};
}

/// What makes an operand.
enum class Maker { in_place, one_scale, mx, blocks };
Maker maker_of(const OperandSpec& spec, const PrepareContext& context) {
  if (is_read_in_place(spec)) return Maker::in_place;
  if (has_one_scale(spec)) return Maker::one_scale;
  return is_mx(spec) && !context.stored.has_scales() ? Maker::mx : Maker::blocks;
}

/// What is made, and of what.
struct Begun {
  CardOperand operand;
  OperandGroups from;
};
Begun begin_operand(Stream stream, PackedOperand& packed, const ConstView& source,
                    const PrepareContext& context) {
  packed.source = source;
  CardOperand operand = card_operand(packed);
  operand.element.key = step_key(stream, context.key);
  return {operand, operand_groups(stream, packed.spec, source, context)};
}

void prepare(Stream stream, PackedOperand& packed, const ConstView& source,
             const PrepareContext& context, const Scratch& scratch) {
  const OperandSpec& spec = packed.spec;
  NG_CHECK(context.mean == nullptr, spec.rows);  // takes_off_means()
  const auto [operand, from] = begin_operand(stream, packed, source, context);
  switch (maker_of(spec, context)) {
    case Maker::in_place:
      if (context.stats != nullptr)
        for_each_row(stream, spec.rows,
                     CountRow{operand, range_of(*spec.cast.element).max, context.stats});
      return;
    case Maker::one_scale:
      return prepare_one_scale(stream, one_scale_job(spec, operand, from, context));
    case Maker::mx:
      return prepare_mx(stream, mx_job(spec, operand, from, context));
    case Maker::blocks:
      return prepare_blocks(stream, block_job(spec, operand, from, context), scratch);
  }
}

/// Both operands, of one maker, by one read of the source; false: not these two.
bool prepare_together(Stream stream, const PrepareBoth& op, const Scratch& scratch) {
  const auto spec_of = [&](size_t i) -> const OperandSpec& { return op.made[i].packed->spec; };
  const size_t turned = spec_of(0).contract == Contract::rows ? 0 : 1, straight = 1 - turned;
  const Maker maker = maker_of(spec_of(straight), op.made[straight].context);
  if (maker != maker_of(spec_of(turned), op.made[turned].context)) return false;
  if (spec_of(straight).contract == spec_of(turned).contract) return false;
  const auto both_by = [&](const auto& make_job, const auto& prepare_both, const auto&... more) {
    const auto job = [&](size_t i) {
      const auto& [packed, context] = op.made[i];
      const auto [operand, from] = begin_operand(stream, *packed, op.source, context);
      return make_job(packed->spec, operand, from, context);
    };
    return prepare_both(stream, job(straight), job(turned), more...);
  };
  switch (maker) {
    case Maker::in_place:
      return false;
    case Maker::one_scale:
      return both_by(one_scale_job, prepare_one_scale_both);
    case Maker::mx:
      return both_by(mx_job, prepare_mx_both);
    case Maker::blocks:
      return both_by(block_job, prepare_blocks_both, scratch);
  }
  return false;
}

/// What Unpack is to write of an element.
struct UnpackEach {
  CardOperand operand;
  int64_t first_row;
  Target values;
  uint16_t* codes;
  float divisor;  ///< what undoes the prescale
  __device__ void operator()(int64_t i, int64_t k) const {
    const int64_t row = first_row + i;
    const float element = operand.element_at(row, k);
    values.put(i, k, element * operand.scale_at(row, k) * operand.second.decode(row, k) / divisor);
    if (codes == nullptr) return;
    const uint32_t code =
        operand.stored ? operand.codes(row, k)
                       : encode_float(operand.element.grid, element, {}, OverflowRule::special);
    codes[i * values.cols + k] = static_cast<uint16_t>(code);
  }
};

struct UnpackScale {
  CardOperand operand;
  float* scales;
  __device__ void operator()(int64_t i, int64_t j) const {
    const BlockScales& of = operand.scales;
    scales[i * of.across + j] =
        of.data != nullptr ? of.value(i * of.across + j) : operand.second.decode(0, 0);
  }
};

struct UnpackSecondLevel {
  CardOperand operand;
  float* scales;
  __device__ void operator()(int64_t /* row */, int64_t i) const {
    const bool has_levels = operand.scales.data != nullptr && operand.second.data != nullptr;
    scales[i] = has_levels ? operand.second.data[i].decode : 1.0f;
  }
};

}  // namespace

size_t operand_bytes(const OperandSpec& spec) {
  require_operand(spec);
  if (is_read_in_place(spec)) return 0;
  const CardScales second = card_scales(spec);
  if (has_one_scale(spec)) return scale_place(code_bytes(spec)) + bytes_of(second);
  const size_t bytes = block_scale_place(spec) + block_scale_bytes(spec);
  return second.count > 0 ? scale_place(bytes) + bytes_of(second) : bytes;
}

CardOperand card_operand(const PackedOperand& packed) {
  const OperandSpec& spec = packed.spec;
  CardOperand operand = operand_without_storage(spec);
  if (!operand.stored) {
    operand.source = source_of(Prepare::kName, packed.source);
    return operand;
  }
  const size_t bytes = operand_bytes(spec);
  NG_CHECK(packed.bytes >= bytes, packed.bytes, bytes);
  operand.codes.data = reinterpret_cast<uint8_t*>(packed.storage);
  if (operand.second.count > 0)
    operand.second.data =
        reinterpret_cast<CardScale*>(packed.storage + bytes - bytes_of(operand.second));
  if (!has_one_scale(spec)) operand.scales.data = operand.codes.data + block_scale_place(spec);
  return operand;
}

void perform(Stream stream, const Prepare& op, const Scratch& scratch) {
  prepare(stream, *op.packed, op.source, op.context, scratch);
}

void perform(Stream stream, const PrepareBoth& op, const Scratch& scratch) {
  if (prepare_together(stream, op, scratch)) return;
  for (const PrepareBoth::Made& made : op.made)
    prepare(stream, *made.packed, op.source, made.context, scratch);
}

void perform(Stream stream, const RoundingBackward& op, const Scratch& scratch) {
  check_rounding_backward(op);
  const OperandSpec& spec = op.spec;
  PrepareContext context = op.context;
  context.update_history = false;
  CardOperand operand = operand_without_storage(spec);
  operand.element.key = step_key(stream, context.key);
  const int64_t scales = operand.second.count;
  if (scales > 0) operand.second.data = scratch.take<CardScale>(RoundingBackward::kName, scales);
  const OperandGroups from = operand_groups(stream, spec, op.source, context);
  const PassedGradient passed{.y = target_of(RoundingBackward::kName, op.y),
                              .x = source_of(RoundingBackward::kName, op.x),
                              .factor = gradient_factor_of(spec.cast),
                              .into = op.into,
                              .is_rounded = op.round == Compute::bf16};
  if (has_one_scale(spec))
    return pass_one_scale(stream, one_scale_job(spec, operand, from, context), passed);
  pass_blocks(stream, block_job(spec, operand, from, context), passed,
              scratch.behind<CardScale>(scales));
}

void perform(Stream stream, const Unpack& op) {
  const OperandSpec& spec = op.packed->spec;
  NG_CHECK(op.first_row >= 0 && op.first_row + op.values.rows <= spec.rows &&
               op.values.cols <= spec.k_padded(),
           op.first_row, op.values.rows, op.values.cols);
  NG_CHECK(op.codes == nullptr || spec.cast.element->bits <= 16, spec.cast.element->name);
  const CardOperand operand = card_operand(*op.packed);
  for_each_place(stream, op.values.rows, op.values.cols,
                 UnpackEach{operand, op.first_row, target_of(Unpack::kName, op.values), op.codes,
                            op.undoes_prescale ? spec.cast.prescale : 1.0f});
  const BlockScales all = block_scales(spec, nullptr);
  if (op.scales != nullptr && !spec.cast.is_unscaled())
    for_each_place(stream, (spec.rows + all.block_rows - 1) / all.block_rows, all.across,
                   UnpackScale{operand, op.scales});
  if (op.tensor_scale != nullptr)
    for_each_place(stream, 1, std::max<int64_t>(operand.second.count, 1),
                   UnpackSecondLevel{operand, op.tensor_scale});
}

}  // namespace ng::cuda
