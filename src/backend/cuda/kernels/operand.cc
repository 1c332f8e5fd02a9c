#include "backend/cuda/kernels/operand.h"

#include "backend/cuda/kernels/one_scale.h"
#include "backend/cuda/kernels/perform.h"
#include "format/codec.h"

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

bool has_four_bits(const OperandSpec& spec) { return is_mx(spec) && spec.cast.element->bits == 4; }

/// Where the scale lies, behind the codes.
size_t scale_place(size_t codes) {
  return (codes + alignof(CardScale) - 1) / alignof(CardScale) * alignof(CardScale);
}

bool has_one_scale(const OperandSpec& spec) {
  const Operand& cast = spec.cast;
  const bool is_whole =
      cast.is_unscaled() || (cast.block.kind == Block::Kind::tensor &&
                             (cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2));
  return is_whole && cast.tensor_scale == ScaleKind::none && cast.fit.size() < 2 &&
         cast.element->kind == ElementKind::floating && cast.element->bits <= 8 &&
         cast.scale_of == ScaleOf::amax && cast.rounding != Rounding::eden &&
         cast.subnormals == Subnormals::keep;
}

void require_operand(const OperandSpec& spec) {
  if (spec.cast.gradient != RoundingGradient::straight)
    throw Unsupported("cuda: " + describe(spec.cast));
  if (!is_read_in_place(spec) && !is_mx(spec) && !has_one_scale(spec))
    throw Unsupported("cuda: operands in " + describe(spec.cast) +
                      (spec.hadamard.size > 0 ? " after a Hadamard transform" : ""));
}

ElementCast element_cast(const Operand& cast, const RandomKey& key) {
  const bool draws = cast.rounding == Rounding::stochastic;
  return {.grid = grid_of(*cast.element),
          .overflow = overflow_rule(cast.overflow),
          .mode = draws ? RoundMode::sr : RoundMode::rne,
          .sr_bits = cast.sr_bits,
          .key = key};
}

/// Of an operand that is read in place.
struct CountEach {
  CardOperand operand;
  float max;
  OperandStats* stats;
  __device__ void operator()(int64_t row, int64_t k) const {
    if (row == 0 && k == 0) count_values(stats, operand.rows * operand.k);
    const float z = operand.is_turned ? operand.source(k, row) : operand.source(row, k);
    count_nonfinite(stats, z);
    if (!operand.is_exact) count_rounded(stats, z, z, max, operand.element_at(row, k) == 0);
  }
};

/// A group of blocks by a warp.
struct MxGroups {
  OperandGroups from;
  MxCast cast;
  MxOperand y;
  OperandStats* stats;  ///< null: nothing is counted

  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t row = unit / from.groups();
    float x[kMostHadamardBlocks];
    from.load(unit, lane, x);
    if (stats != nullptr && unit == 0 && lane == 0) count_values(stats, from.rows * from.k);
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      if (b >= from.blocks()) break;
      const int64_t place = from.at(unit, b, lane);
      const MxCode made =
          put_block(cast, y, x[b], from.draw_row(row, place), from.draw_col(row, place),
                    from.whole_cols, (row * from.k_padded + place) / kMxBlock);
      if (stats == nullptr || place >= from.k) continue;
      count_nonfinite(stats, x[b]);
      if (made.scale != kE8m0NanCode)
        count_rounded(stats, x[b], made.scaled, cast.range.max,
                      (made.code & ~cast.element.grid.sign_mask) == 0);
    }
  }
};

void prepare(Stream stream, PackedOperand& packed, const ConstView& source,
             const PrepareContext& context) {
  const OperandSpec& spec = packed.spec;
  const bool is_straight = spec.contract == Contract::cols;
  NG_CHECK((is_straight ? source.rows : source.cols) == spec.rows, source.rows, source.cols,
           spec.rows);
  NG_CHECK((is_straight ? source.cols : source.rows) == spec.k, source.rows, source.cols, spec.k);
  packed.source = source;
  const CardOperand operand = card_operand(packed);
  const ElementRange range = range_of(*spec.cast.element);
  if (!operand.stored) {
    if (context.stats != nullptr)
      for_each_place(stream, spec.rows, spec.k, CountEach{operand, range.max, context.stats});
    return;
  }
  if (context.stored.has_scales()) throw Unsupported("cuda: operands by scales of stored tensors");
  const OperandGroups from{.source = source_of(Prepare::kName, source),
                           .is_turned = operand.is_turned,
                           .hadamard = card_hadamard(spec.hadamard.size, spec.hadamard.signs),
                           .rows = spec.rows,
                           .k = spec.k,
                           .k_padded = spec.k_padded(),
                           .first_row = context.first_row,
                           .first_col = context.first_col,
                           .whole_cols = context.whole_cols > 0 ? context.whole_cols : source.cols};
  const ElementCast element = element_cast(spec.cast, context.key);
  if (!operand.is_blocked())
    return prepare_one_scale(stream, {.from = from,
                                      .element = element,
                                      .range = range,
                                      .prescale = spec.cast.prescale,
                                      .codes = operand.mx.codes,
                                      .scale = operand.scale,
                                      .stats = context.stats,
                                      .cast = spec.cast,
                                      .amax = context.amax,
                                      .delayed = context.delayed,
                                      .update_history = context.update_history});
  const MxCast cast{.element = element,
                    .range = range,
                    .rule = spec.cast.scale_rule,
                    .prescale = spec.cast.prescale,
                    .four_bits = operand.four_bits};
  for_each_row(stream, spec.rows * from.groups(), MxGroups{from, cast, operand.mx, context.stats});
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
    const float scale =
        operand.is_blocked() ? e8m0_value(operand.scale_code_at(row, k)) : operand.late_scale();
    values.put(i, k, element * scale / divisor);
    if (codes == nullptr) return;
    const uint32_t code =
        operand.stored ? operand.code_at(row, k)
                       : encode_float(operand.element.grid, element, {}, OverflowRule::special);
    codes[i * values.cols + k] = static_cast<uint16_t>(code);
  }
};

struct UnpackScale {
  CardOperand operand;
  float* scales;
  __device__ void operator()(int64_t row, int64_t block) const {
    scales[row * (operand.k_padded / kMxBlock) + block] =
        e8m0_value(operand.scale_code_at(row, block * kMxBlock));
  }
};

struct UnpackOneScale {
  CardOperand operand;
  float* scale;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    *scale = operand.late_scale();
  }
};

struct PutOne {
  float* to;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { *to = 1; }
};

}  // namespace

size_t operand_bytes(const OperandSpec& spec) {
  require_operand(spec);
  if (is_read_in_place(spec)) return 0;
  const auto codes = static_cast<size_t>(spec.rows * spec.k_padded());
  if (has_one_scale(spec)) return scale_place(codes) + sizeof(CardScale);
  return codes / (has_four_bits(spec) ? 2 : 1) + codes / kMxBlock;
}

CardOperand card_operand(const PackedOperand& packed) {
  const OperandSpec& spec = packed.spec;
  require_operand(spec);
  CardOperand operand{.source = {},
                      .is_turned = spec.contract == Contract::rows,
                      .is_exact = spec.cast.is_fp32(),
                      .element = element_cast(spec.cast, {}),
                      .mx = {},
                      .four_bits = has_four_bits(spec),
                      .rows = spec.rows,
                      .k = spec.k,
                      .k_padded = spec.k_padded()};
  if (is_read_in_place(spec)) {
    operand.source = source_of(Prepare::kName, packed.source);
    return operand;
  }
  NG_CHECK(packed.bytes >= operand_bytes(spec), packed.bytes, operand_bytes(spec));
  operand.stored = true;
  auto* codes = reinterpret_cast<uint8_t*>(packed.storage);
  const int64_t count = spec.rows * spec.k_padded();
  if (has_one_scale(spec)) {
    operand.mx.codes = codes;
    operand.scale =
        reinterpret_cast<CardScale*>(packed.storage + scale_place(static_cast<size_t>(count)));
    return operand;
  }
  operand.blocked = true;
  operand.mx = {codes, codes + count / (operand.four_bits ? 2 : 1)};
  return operand;
}

void perform(Stream stream, const Prepare& op) {
  prepare(stream, *op.packed, op.source, op.context);
}

void perform(Stream stream, const PrepareBoth& op) {
  for (const PrepareBoth::Made& made : op.made)
    prepare(stream, *made.packed, op.source, made.context);
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
  if (op.scales != nullptr && operand.is_blocked())
    for_each_place(stream, spec.rows, spec.k_padded() / kMxBlock, UnpackScale{operand, op.scales});
  else if (op.scales != nullptr && !spec.cast.is_unscaled())
    for_each_place(stream, 1, 1, UnpackOneScale{operand, op.scales});
  if (op.tensor_scale != nullptr) for_each_place(stream, 1, 1, PutOne{op.tensor_scale});
}

}  // namespace ng::cuda
