#include "backend/cpu/quantize/job.h"

#include <algorithm>
#include <numeric>

#include "backend/cpu/quantize/columns.h"
#include "base/error.h"
#include "format/codec.h"
#include "format/scale.h"

namespace ng::cpu {
namespace {

constexpr int64_t kPieceValues = 16384;  // 64 KiB of FP32: in L2 with the draws beside it
constexpr int64_t kPieceRows = 128;
// Rows are read in long runs, which the prefetcher sees; columns in strips of whole cache lines.
constexpr int64_t kPieceCols = 4096;
constexpr int64_t kTurnedPieceCols = 512;
constexpr int64_t kTileRows = 128, kTileCols = 512;  // of a source: 256 KiB

QuantizePlan plan_of(const OperandSpec& spec, const PackedLayout& layout, bool scales_by_block) {
  QuantizePlan plan;
  const bool tiled = scales_by_block && spec.cast.block.kind == Block::Kind::tile;
  plan.tile_rows = tiled ? spec.cast.block.rows : 1;
  const bool turned = spec.contract == Contract::rows;
  // A turned panel reads 256 bytes of every source row.
  const int64_t straight_strip = layout.interleaved ? 16 : 4;
  const int64_t strip = !turned ? straight_strip : spec.rows >= 512 ? 64 : 16;
  plan.panel_rows = std::lcm(strip, plan.tile_rows);
  plan.piece_rows = plan.panel_rows;
  if (plan.panel_rows > kPieceRows) plan.piece_rows = std::min(plan.tile_rows, kPieceRows);
  const int64_t fitting =
      std::min(turned ? kTurnedPieceCols : kPieceCols, kPieceValues / plan.piece_rows / 16 * 16);

  const int64_t group = std::lcm(std::max(spec.hadamard.size, 1), 4);
  plan.block_cols = scales_by_block ? std::max<int64_t>(layout.block, 1) : fitting;
  const int64_t both = std::lcm(plan.block_cols, group);
  if (both <= fitting)
    plan.chunk_cols = fitting / both * both;
  else
    plan.chunk_cols = std::max(plan.block_cols, fitting / plan.block_cols * plan.block_cols);
  plan.piece_cols = std::min(plan.chunk_cols, fitting);
  return plan;
}

// What the vector kernels leave to the scalar definition.
bool needs_definition(const Operand& cast) {
  const bool is_bf16 = cast.element->short_name == "bf16";
  // Elements that users name: binades times spacings leave FP32's range, or a zero loses its sign.
  const ElementFormat& element = *cast.element;
  const bool is_rare = element.bits > 8 && element.bits <= 16 && !is_bf16 &&
                       (element.exponent_bits == 8 || element.specials == Specials::fnuz);
  return (cast.overflow == Overflow::special && !is_bf16) || is_rare ||
         (cast.rounding == Rounding::stochastic && cast.sr_bits == 32);
}

}  // namespace

ElementGrid element_grid(const ElementFormat& element, Overflow overflow) {
  using Kind = ElementGrid::Kind;
  const ElementRange range = range_of(element);
  ElementGrid grid;
  grid.max = grid.clip = range.max;
  if (element.kind == ElementKind::integer) {
    // i · 2^-y is the one binade of the largest i, its spacing kept down to zero.
    grid.kind = element.mantissa_bits == 0 ? Kind::integer : Kind::small;
    grid.mantissa_bits = element.bits - 2;
    grid.lowest_binade = pow2(range.emax);
    grid.has_negative_zero = false;
    return grid;
  }
  grid.mantissa_bits = element.mantissa_bits;
  grid.lowest_binade = pow2(1 - element.bias);
  grid.has_negative_zero = element.specials != Specials::fnuz;
  if (element.bits == 32)
    grid.kind = Kind::fp32;
  else if (element.bits > 8)
    grid.kind = element.short_name == "bf16" ? Kind::bf16 : Kind::fp16;
  if (grid.kind == Kind::bf16 && overflow == Overflow::special)
    grid.clip = float_of_bits(kFloatInf);
  return grid;
}

ScaleRequest scale_request(const Operand& cast) {
  const ElementRange range = range_of(*cast.element);
  return {.kind = cast.scale,
          .rule = cast.scale_rule,
          .integer = cast.element->kind == ElementKind::integer,
          .max = range.max,
          .fit = first_fit(cast, range.max),
          .emax = range.emax,
          .mantissa_bits = range.mantissa_bits,
          .two_level = {}};
}

RegionScales region_scales(const OperandSpec& spec, const PackedLayout& layout,
                           std::byte* storage) {
  const Block& block = spec.cast.tensor_block;
  if (block.kind == Block::Kind::tensor) return {};
  const bool is_tile = block.kind == Block::Kind::tile;
  RegionScales regions{.rows = is_tile ? block.rows : 1,
                       .cols = is_tile ? block.cols : std::max<int64_t>(spec.k_padded(), 1),
                       .across = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded()).cols};
  if (storage == nullptr) return regions;  // whoever asks has memory of its own
  regions.tensor = reinterpret_cast<float*>(storage + layout.tensor_at);
  regions.block = reinterpret_cast<float*>(storage + layout.factors_at);
  return regions;
}

QuantizeJob quantize_job(const PackedOperand& packed, const ConstView& source,
                         const PrepareContext& context, const DrawGroups& groups) {
  const OperandSpec& spec = packed.spec;
  const Operand& cast = spec.cast;
  const PackedLayout layout = packed_layout(spec);
  const bool by_block = !cast.is_unscaled() && cast.block.kind != Block::Kind::tensor;
  const OtherElement other = other_element(cast);
  OtherGrid other_grid{.grid = {}, .to = other.to, .back = other.back};
  if (cast.other != nullptr) other_grid.grid = element_grid(*cast.other, Overflow::saturate);
  return {.spec = spec,
          .layout = layout,
          .plan = plan_of(spec, layout, by_block),
          .source = OperandSource(spec, source, context.key, groups, context.mean),
          .grid = element_grid(*cast.element, cast.overflow),
          .other = other,
          .other_grid = other_grid,
          .request = scale_request(cast),
          .context = context,
          .storage = packed.storage,
          .scales_by_block = by_block,
          .by_columns = encodes_columns(spec, layout),
          .divides = cast.element->kind == ElementKind::integer &&
                     cast.scaling == Scaling::current &&
                     (cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2),
          .exact = needs_definition(cast),
          .regions = region_scales(spec, layout, packed.storage)};
}

int64_t QuantizeJob::panel_rows() const { return by_columns ? kColumnPanel : plan.panel_rows; }

float scale_of_code(const ElementFormat& element, const std::byte* scales, int64_t at) {
  if (element == fp32_format()) return reinterpret_cast<const float*>(scales)[at];
  const auto code = std::to_integer<uint32_t>(scales[at]);
  return element.kind == ElementKind::power ? e8m0_value(code) : decode_float(e4m3_grid(), code);
}

void take_stored_scale(const QuantizeJob& job, int64_t row, int64_t k, float& decode,
                       float& multiplier) {
  const std::optional<int64_t> at = job.context.stored_scale(job.spec, row, k);
  if (!at) return;
  const auto& scales = job.context.stored.scales;
  decode = scale_of_code(*scales.element, scales.data, *at);
  multiplier = 1.0f;
}

int64_t source_tiles(const ConstView& source) {
  return ceil_div(source.rows, kTileRows) * ceil_div(source.cols, kTileCols);
}

bool can_be_tiled(const QuantizeJob& job) {
  if (is_read_in_place(job.spec)) return false;
  const bool straight = job.spec.contract == Contract::cols;
  const int64_t rows = straight ? kTileRows : kTileCols, k = straight ? kTileCols : kTileRows;
  const int64_t block = job.scales_by_block ? job.plan.block_cols : 1;
  return rows % job.panel_rows() == 0 && k % block == 0 &&
         k % std::max(job.spec.hadamard.size, 1) == 0;
}

Piece tile_area(const QuantizeJob& job, int64_t tile) {
  const ConstView& source = job.source.view();
  const int64_t across = ceil_div(source.cols, kTileCols);
  const int64_t row = tile / across * kTileRows, col = tile % across * kTileCols;
  const int64_t rows = std::min(kTileRows, source.rows - row);
  const int64_t cols = std::min(kTileCols, source.cols - col);
  Piece area = job.spec.contract == Contract::cols
                   ? Piece{.row = row, .rows = rows, .k = col, .cols = cols}
                   : Piece{.row = col, .rows = cols, .k = row, .cols = rows};
  if (area.k + area.cols == job.spec.k) area.cols = job.spec.k_padded() - area.k;
  return area;
}

QuantizeScratch quantize_scratch(const QuantizePlan& plan, std::span<std::byte> memory) {
  size_t end = 0;
  const auto take = [&](auto* pointer, int64_t count) {
    using Value = std::remove_reference_t<decltype(*pointer)>;
    auto* const at = reinterpret_cast<Value*>(memory.data() + end);
    end += (static_cast<size_t>(count) * sizeof(Value) + 63) / 64 * 64;
    return at;
  };
  const int64_t scales =
      ceil_div(plan.panel_rows, plan.tile_rows) * ceil_div(plan.chunk_cols, plan.block_cols);
  QuantizeScratch scratch;
  scratch.values =
      take(scratch.values, OperandSource::buffer_floats(plan.piece_rows, plan.piece_cols));
  scratch.code_stride = (plan.piece_cols + 15) / 16 * 16;
  scratch.codes = take(scratch.codes, plan.piece_rows * scratch.code_stride);
  scratch.draws = take(scratch.draws, OperandSource::draw_halves(plan.piece_rows, plan.piece_cols));
  scratch.words = take(scratch.words, OperandSource::draw_words(plan.piece_cols));
  scratch.amax = take(scratch.amax, scales);
  scratch.decode = take(scratch.decode, scales);
  scratch.multiplier = take(scratch.multiplier, scales);
  scratch.tensors = take(scratch.tensors, scales);
  scratch.factors = take(scratch.factors, scales);
  scratch.trial_values = take(scratch.trial_values, kTriedValues * 16);
  scratch.trial_draws = take(scratch.trial_draws, kTriedValues * 16);
  NG_CHECK(end <= memory.size(), end, memory.size());
  return scratch;
}

}  // namespace ng::cpu
