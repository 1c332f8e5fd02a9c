#include "backend/cpu/packed.h"

#include "base/error.h"

namespace ng::cpu {
namespace {

constexpr size_t kAlignment = 64;

// Takes `bytes` off the end of a growing storage and returns where they begin.
size_t take(size_t& end, size_t bytes) {
  const size_t begin = end;
  end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

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
  const bool is_bf16 = cast.element->short_name == "bf16";
  PackedLayout layout;
  layout.block = tiled ? cast.block.cols : k;
  layout.blocks = tiled ? ceil_div(k, layout.block) : 1;
  layout.element_bytes = cast.element->bits <= 8 || is_bf16 ? 2 : 4;

  const auto rows = static_cast<size_t>(spec.rows);
  const auto bytes_of = [](int64_t count, size_t each) {
    return static_cast<size_t>(count) * each;
  };
  layout.elements_at =
      take(layout.bytes, rows * bytes_of(k, static_cast<size_t>(layout.element_bytes)));
  layout.scales_at = take(layout.bytes, rows * bytes_of(layout.blocks, sizeof(float)));
  layout.tensor_at = take(layout.bytes, 16 * sizeof(float));
  return layout;
}

}  // namespace ng::cpu
