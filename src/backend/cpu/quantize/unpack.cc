// Operands read back: their elements, codes and scales.
#include <algorithm>
#include <span>
#include <vector>

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/quantize/quantize.h"
#include "backend/cpu/types.h"
#include "backend/gemm_checks.h"
#include "base/error.h"
#include "base/threads.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

float element_at(const PackedOperand& packed, const PackedLayout& layout, int64_t at) {
  const std::byte* elements = packed.storage + layout.elements_at;
  switch (layout.form) {
    case ElementForm::int8:
      return static_cast<float>(reinterpret_cast<const int8_t*>(elements)[at]) * layout.unit;
    case ElementForm::bf16:
      return float_of_bits(uint32_t{reinterpret_cast<const uint16_t*>(elements)[at]} << 16);
    case ElementForm::fp32:
      break;
  }
  return reinterpret_cast<const float*>(elements)[at];
}

// The first elements of a row, unscaled.
void read_elements(const PackedOperand& packed, int64_t row, std::span<float> out) {
  const PackedLayout layout = packed_layout(packed.spec);
  if (layout.bytes > 0) {
    for (size_t k = 0; k < out.size(); ++k)
      out[k] = element_at(packed, layout, layout.index(row, static_cast<int64_t>(k)));
    return;
  }
  const ElementFormat& element = *packed.spec.cast.element;
  const OverflowRule rule = overflow_rule(packed.spec.cast.overflow);
  const auto cols = static_cast<int64_t>(out.size());
  std::vector<float> buffer(static_cast<size_t>(OperandSource::buffer_floats(1, cols)));
  const TileValues in_place = OperandSource(packed.spec, packed.source, {}, {})
                                  .load({row, 1, 0, cols}, buffer.data())
                                  .values;
  for (size_t k = 0; k < out.size(); ++k) {
    const float x = in_place(0, static_cast<int64_t>(k));
    out[k] = element.bits < 32 ? decode(element, encode(element, x, {}, rule)) : x;
  }
}

// Codes of a row's first elements; the second of a list's is said by the block's scale.
void codes_of(const PackedOperand& packed, int64_t row, std::span<const float> elements,
              uint16_t* codes) {
  const Operand& cast = packed.spec.cast;
  const PackedLayout layout = packed_layout(packed.spec);
  const auto* scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const OtherElement other = other_element(cast);
  for (size_t k = 0; k < elements.size(); ++k) {
    const auto block = static_cast<int64_t>(k) / std::max<int64_t>(layout.block, 1);
    const bool is_other =
        cast.other != nullptr && has_other_element(scales[row * layout.blocks + block]);
    codes[k] = static_cast<uint16_t>(
        is_other ? other.code_of(elements[k])
                 : encode(*cast.element, elements[k], {}, OverflowRule::special));
  }
}

// The first elements of a row times their scales.
void scale_elements(const PackedOperand& packed, int64_t row, std::span<float> out) {
  const PackedLayout layout = packed_layout(packed.spec);
  if (layout.bytes == 0) return;
  const auto* scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const auto* tensor = reinterpret_cast<const float*>(packed.storage + layout.tensor_at);
  const auto block = static_cast<size_t>(layout.block);
  const RegionScales regions = region_scales(packed.spec, layout, packed.storage);
  for (size_t begin = 0; begin < out.size(); begin += block) {
    const float scale = scales[row * layout.blocks + static_cast<int64_t>(begin / block)];
    const float level = regions ? regions.at(row, static_cast<int64_t>(begin)).tensor : tensor[0];
    for (size_t k = begin; k < std::min(begin + block, out.size()); ++k)
      out[k] = out[k] * scale * level;
  }
}

// The scale of each block, which lies there for every row of it.
void read_scales(const PackedOperand& packed, float* scales) {
  const PackedLayout layout = packed_layout(packed.spec);
  const Operand& cast = packed.spec.cast;
  const ScaleShape shape = scale_shape(cast, packed.spec.rows, packed.spec.k_padded());
  const auto* from = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  const int64_t rows_of_block = cast.block.kind == Block::Kind::tile ? cast.block.rows : 1;
  for (int64_t r = 0; r < shape.rows; ++r)
    std::copy_n(from + r * rows_of_block * layout.blocks, shape.cols, scales + r * shape.cols);
}

}  // namespace

void unpack(Threads threads, const Unpack& op) {
  const PackedOperand& packed = *op.packed;
  const OperandSpec& spec = packed.spec;
  const ElementFormat& element = *spec.cast.element;
  require_fp32(op.kName, {op.values});
  const Rows<float> values = op.values.as<float>();
  NG_CHECK(op.first_row >= 0 && op.first_row + values.rows <= spec.rows, op.first_row, values.rows);
  NG_CHECK(values.cols <= spec.k_padded(), values.cols, spec.k_padded());
  NG_CHECK(op.codes == nullptr || element.bits <= 16, element.name);
  const auto cols = static_cast<size_t>(values.cols);
  parallel_for(threads, values.rows, [&](int64_t r, int) {
    const std::span<float> row(values.row(r), cols);
    read_elements(packed, op.first_row + r, row);
    if (op.codes != nullptr)
      codes_of(packed, op.first_row + r, row, op.codes + static_cast<size_t>(r) * cols);
    scale_elements(packed, op.first_row + r, row);
    if (op.undoes_prescale && spec.cast.prescale != 1)
      for (float& value : row) value /= spec.cast.prescale;
  });
  if (spec.cast.is_unscaled()) return;
  if (op.scales != nullptr) read_scales(packed, op.scales);
  if (op.tensor_scale == nullptr) return;
  const ScaleShape levels = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  std::copy_n(reinterpret_cast<const float*>(packed.storage + packed_layout(spec).tensor_at),
              levels.rows * levels.cols, op.tensor_scale);
}

}  // namespace ng::cpu
