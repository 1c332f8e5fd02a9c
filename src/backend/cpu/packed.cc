#include "backend/cpu/packed.h"

#include "base/error.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

constexpr size_t kAlignment = 64;

// Takes `bytes` off the end of a growing storage and returns where they begin.
size_t take(size_t& end, size_t bytes) {
  const size_t begin = end;
  end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

ElementForm form_of(const OperandSpec& spec) {
  const ElementFormat& element = *spec.cast.element;
  if (spec.cast.other != nullptr) return ElementForm::fp32;  // multiples of 6/7
  const bool loses_zeros = spec.signed_zeros && element.kind == ElementKind::floating;
  if (int8_unit(element) != 0 && !loses_zeros) return ElementForm::int8;
  return element.bits <= 8 || element.short_name == "bf16" ? ElementForm::bf16 : ElementForm::fp32;
}

// Value of the integer 1 where all values are multiples of it up to `largest`; else 0.
float integer_unit(const ElementFormat& element, float largest) {
  const bool all_numbers =
      element.specials == Specials::none && element.is_signed && element.bits <= 8;
  if (!all_numbers || element.kind == ElementKind::power) return 0;
  const float unit = min_subnormal(element);
  return max_value(element) <= largest * unit ? unit : 0;
}

}  // namespace

float int8_unit(const ElementFormat& element) { return integer_unit(element, 127); }
float int16_unit(const ElementFormat& element) { return integer_unit(element, 32767); }

bool is_read_in_place(const OperandSpec& spec) {
  const std::string_view element = spec.cast.element->short_name;
  return spec.cast.is_unscaled() && spec.cast.rounding == Rounding::nearest &&
         spec.cast.prescale == 1.0f && spec.hadamard.size == 0 &&
         (element == "fp32" || element == "bf16" || element == "fp16");
}

PackedLayout packed_layout(const OperandSpec& spec) {
  NG_CHECK(spec.rows >= 0 && spec.k >= 0 && spec.k_multiple >= 1, spec.rows, spec.k,
           spec.k_multiple);
  if (is_read_in_place(spec)) return {};
  const Operand& cast = spec.cast;
  const int64_t k = spec.k_padded();
  const bool tiled = cast.block.kind == Block::Kind::tile && !cast.is_unscaled();
  PackedLayout layout;
  layout.block = tiled ? cast.block.cols : k;
  layout.blocks = tiled ? ceil_div(k, layout.block) : 1;
  layout.form = form_of(spec);
  if (layout.form == ElementForm::int8) layout.unit = int8_unit(*cast.element);
  // Who asks for the signs of zeros wants to look at the operand, row by row.
  layout.interleaved =
      layout.form == ElementForm::int8 && !spec.signed_zeros && k % 4 == 0 && layout.block % 4 == 0;
  layout.k_padded = k;

  const auto rows = static_cast<size_t>(spec.rows);
  const auto element_bytes = static_cast<size_t>(bytes_of(layout.form));
  const size_t stored_rows = layout.interleaved ? (rows + 15) / 16 * 16 : rows;
  layout.elements_at = take(layout.bytes, stored_rows * static_cast<size_t>(k) * element_bytes);
  layout.scales_at = take(layout.bytes, rows * static_cast<size_t>(layout.blocks) * sizeof(float));
  if (cast.tensor_block.kind == Block::Kind::tensor) {
    layout.tensor_at = take(layout.bytes, 16 * sizeof(float));
    return layout;
  }
  const ScaleShape regions = tensor_scale_shape(cast, spec.rows, k);
  const size_t bytes = static_cast<size_t>(regions.rows * regions.cols) * sizeof(float);
  layout.tensor_at = take(layout.bytes, bytes);
  layout.factors_at = take(layout.bytes, bytes);
  return layout;
}

}  // namespace ng::cpu
