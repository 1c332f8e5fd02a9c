#include "io/narrow_form.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "format/codec.h"
#include "format/scale.h"

namespace ng {
namespace {

constexpr int kMxBlock = 32, kNvfp4Block = 16;

bool is_element(const Operand& cast, std::string_view name) {
  return cast.element->short_name == name;
}

/// Tiles of so many columns, of however many rows.
bool lies_along_rows(const Block& block, int cols) {
  return block.kind == Block::Kind::tile && block.cols == cols;
}

bool has_fp32_scales(const Operand& cast) {
  return cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2;
}

}  // namespace

Operand operand_of(NarrowForm form, const Block& block) {
  Operand cast;
  switch (form) {
    case NarrowForm::mxfp4:
      return operand_of("mxfp4");
    case NarrowForm::mxfp8:
      return operand_of("mxfp8_e4m3");
    case NarrowForm::nvfp4:
      return operand_of("nvfp4");
    default:
      cast = operand_of("fp8_e4m3");
      if (form == NarrowForm::fp8_channel) cast.block = {.kind = Block::Kind::row};
      if (form == NarrowForm::fp8_block) cast.block = block;
      return cast;
  }
}

bool holds(NarrowForm form, const Operand& cast, const Block& block) {
  switch (form) {
    case NarrowForm::mxfp4:
    case NarrowForm::mxfp8:
      return is_element(cast, form == NarrowForm::mxfp4 ? "e2m1" : "e4m3") &&
             cast.scale == ScaleKind::e8m0 && lies_along_rows(cast.block, kMxBlock);
    case NarrowForm::nvfp4:
      return is_element(cast, "e2m1") && cast.scale == ScaleKind::e4m3 &&
             lies_along_rows(cast.block, kNvfp4Block);
    default:
      break;
  }
  if (!is_element(cast, "e4m3") || !has_fp32_scales(cast)) return false;
  if (form == NarrowForm::fp8_tensor) return cast.block.kind == Block::Kind::tensor;
  if (form == NarrowForm::fp8_channel) return cast.block.kind == Block::Kind::row;
  return cast.block == block;
}

int64_t block_of(NarrowForm form) {
  if (form == NarrowForm::nvfp4) return kNvfp4Block;
  return form == NarrowForm::mxfp4 || form == NarrowForm::mxfp8 ? kMxBlock : 0;
}

std::vector<uint8_t> scale_codes_of_row(const NarrowMatrix& matrix, int64_t row) {
  const ScaleGrid& grid = matrix.grid;
  const auto first = matrix.scale_codes.begin() + grid.at(row, 0);
  return {first, first + grid.cols};
}

std::span<const uint16_t> codes_of_row(const NarrowMatrix& matrix, int64_t row) {
  const auto cols = static_cast<size_t>(matrix.cols);
  return std::span(matrix.codes).subspan(static_cast<size_t>(row) * cols, cols);
}

float encode_scale_of_tensor(std::span<const float> values, const Operand& cast) {
  if (cast.tensor_scale == ScaleKind::none) return 1.0f;
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::fabs(value));
  const float fit = first_fit(cast, max_value(*cast.element));
  const TwoLevelScale scale = two_level_scale(cast.tensor_scale, amax, fit, cast.scale_max);
  if (cast.tensor_scale == ScaleKind::pow2 || amax == 0) return 1.0f / scale.tensor;
  // As two_level_scale makes it; a tensor's amax is finite.
  return std::min(cast.scale_max * fit / amax, kFloatMax);
}

}  // namespace ng
