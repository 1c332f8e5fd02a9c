#include "numbers/by_definition.h"

#include <cmath>

#include "format/codec.h"
#include "format/scale.h"

namespace ng {
namespace {

/// A block of the panel.
struct Region {
  int64_t row, row_end, col, col_end;
};

struct Encoder {
  const Operand& cast;
  ElementCodec codec;  ///< of the elements; affine: of integers before they are cut to the code's
  Rows<const float> panel;
  const Draws& draws;
  OverflowRule overflow = OverflowRule::saturate;

  [[nodiscard]] Rounder rounder(int64_t row, int64_t col) const {
    if (cast.rounding == Rounding::nearest) return {};
    return {.mode = RoundMode::sr,
            .bits = cast.sr_bits,
            .random = cpu::random_bits(draws.key, draws.groups, row, col, cast.sr_bits)};
  }
};

bool count_nonfinite(float x, OperandStats& counts) {
  counts.nan += std::isnan(x) ? 1 : 0;
  counts.inf += std::isinf(x) ? 1 : 0;
  return std::isfinite(x);
}

/// Integers wide enough for every quotient that is not clamped anyway.
constexpr ElementFormat kWideInteger{.name = "wide integer",
                                     .short_name = "",
                                     .kind = ElementKind::integer,
                                     .is_signed = true,
                                     .bits = 16,
                                     .exponent_bits = 0,
                                     .mantissa_bits = 0,
                                     .bias = 0,
                                     .specials = Specials::none,
                                     .safetensors = ""};

/// Code of x by value = (code - zero) · scale.
uint16_t affine_code(const ElementCodec& integers, float x, const AffineScale& affine, float levels,
                     const Rounder& rounder, OperandStats& counts) {
  const float y = x / affine.scale;
  const auto zero = static_cast<float>(affine.zero);
  const float i = integers.decode(integers.encode(y, rounder)) + zero;
  const float code = i < 0 ? 0 : i > levels ? levels : i;
  if (count_nonfinite(x, counts)) {
    if (y + zero < 0 || y + zero > levels) ++counts.saturated;
    if (x != 0 && code == zero) ++counts.flushed;
  }
  return static_cast<uint16_t>(code);
}

ValueRange range_of(Rows<const float> panel, const Region& region) {
  ValueRange range;
  for (int64_t r = region.row; r < region.row_end; ++r)
    note_values(range, {panel.row(r) + region.col, 1, region.col_end - region.col, 0}, {1});
  return range;
}

void encode_affine(const Encoder& encoder, const Region& region, ValueRange range,
                   NarrowMatrix& out, OperandStats& counts) {
  const auto levels = static_cast<uint32_t>((1u << encoder.cast.element->bits) - 1);
  if (!range.finite) range = {};  // the scale is 1, as for other integers
  const AffineScale affine = affine_scale_of(range.low, range.high, levels);
  const auto at = static_cast<size_t>(out.grid.at(region.row, region.col));
  out.scales[at] = affine.scale;
  out.zeros[at] = static_cast<uint8_t>(affine.zero);
  for (int64_t r = region.row; r < region.row_end; ++r)
    for (int64_t c = region.col; c < region.col_end; ++c)
      out.codes[static_cast<size_t>(r * out.cols + c)] =
          affine_code(encoder.codec, encoder.panel.row(r)[c], affine, static_cast<float>(levels),
                      encoder.rounder(r, c), counts);
}

void encode_elements(const Encoder& encoder, int64_t row, NarrowMatrix& out, OperandStats& counts) {
  const ElementCodec& codec = encoder.codec;
  const float max = max_value(codec.format());
  for (int64_t c = 0; c < out.cols; ++c) {
    const float x = encoder.panel.row(row)[c];
    const uint32_t code = codec.encode(x, encoder.rounder(row, c), encoder.overflow);
    out.codes[static_cast<size_t>(row * out.cols + c)] = static_cast<uint16_t>(code);
    if (!count_nonfinite(x, counts)) continue;
    if (std::fabs(x) > max) ++counts.saturated;
    if (x != 0 && codec.is_zero_code(code)) ++counts.flushed;
  }
}

}  // namespace

bool is_affine(const Operand& cast) {
  return cast.element->kind == ElementKind::integer && !cast.element->is_signed &&
         !cast.is_unscaled();
}

bool is_by_definition(const Operand& cast) {
  return cast.element->kind == ElementKind::power || !cast.element->is_signed;
}

void encode_by_definition(Rows<const float> panel, const Draws& draws,
                          std::span<const ValueRange> ranges, NarrowMatrix& out, Threads threads) {
  const bool affine = is_affine(out.cast);
  const Encoder encoder{
      .cast = out.cast,
      .codec = ElementCodec(affine ? kWideInteger : *out.cast.element, out.cast.subnormals),
      .panel = panel,
      .draws = draws,
      .overflow = overflow_rule(out.cast.overflow)};
  const ScaleGrid& grid = out.grid;
  out.codes.resize(static_cast<size_t>(out.rows * out.cols));
  out.scales.assign(static_cast<size_t>(grid.size()), 1.0f);
  out.zeros.assign(out.scales.size(), 0);  // none where there are no scales
  out.scale_codes.clear();
  out.tensor_scale = 1;
  std::vector<ValueRange> columns;  // all at once: one by one they are walked across the rows
  if (affine && ranges.empty() && grid.rows == 1 && grid.block_cols == 1) {
    columns.resize(static_cast<size_t>(out.cols));
    note_columns(columns, panel, threads);
    ranges = columns;
  }
  std::vector<OperandStats> counts(static_cast<size_t>(std::max(threads.count, 1)));
  parallel_for(threads, affine ? grid.rows : out.rows, [&](int64_t item, int worker) {
    OperandStats& own = counts[static_cast<size_t>(worker)];
    if (!affine) return encode_elements(encoder, item, out, own);
    for (int64_t j = 0; j < grid.cols; ++j) {
      const Region region{item * grid.block_rows, std::min((item + 1) * grid.block_rows, out.rows),
                          j * grid.block_cols, std::min((j + 1) * grid.block_cols, out.cols)};
      const auto known = static_cast<size_t>(ranges.size() == 1 ? 0 : j);
      encode_affine(encoder, region, ranges.empty() ? range_of(panel, region) : ranges[known], out,
                    own);
    }
  });
  out.counts = {};
  for (const OperandStats& part : counts) out.counts += part;
}

}  // namespace ng
