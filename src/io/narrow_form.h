// Which casts the narrow layouts of other programs hold, and codes and scales as they lie there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numbers/narrow_matrix.h"

namespace ng {

/// What a layout holds of a weight (out, in): elements, and scales of blocks along `in`.
enum class NarrowForm : uint8_t {
  mxfp4,        ///< E2M1, E8M0 per 32
  mxfp8,        ///< E4M3, E8M0 per 32
  nvfp4,        ///< E2M1, E4M3 per 16, FP32 for the tensor
  fp8_tensor,   ///< E4M3, FP32 for the tensor
  fp8_channel,  ///< E4M3, FP32 per row
  fp8_block,    ///< E4M3, FP32 per block of rows × columns
};

/// The cast that a weight takes where nobody trained it: nearest; NVFP4 1 x 16 with encode_scale,
/// E8M0 scales by floor, FP8 by s = 448/amax. `block`: of fp8_block.
[[nodiscard]] Operand operand_of(NarrowForm form, const Block& block);

/// Whether codes and scales of `cast` fit the form: its scales may be repeated by row.
[[nodiscard]] bool holds(NarrowForm form, const Operand& cast, const Block& block);

/// Values along `in` that share a scale; 0 of scales of rows, tensors and tiles.
[[nodiscard]] int64_t block_of(NarrowForm form);

/// Codes of the block scales of row `row`.
[[nodiscard]] std::vector<uint8_t> scale_codes_of_row(const NarrowMatrix& matrix, int64_t row);

/// Elements of row `row`.
[[nodiscard]] std::span<const uint16_t> codes_of_row(const NarrowMatrix& matrix, int64_t row);

/// Of a tensor that is cast to NVFP4: encode_scale, whose inverse is the tensor's scale.
/// [formats.md 4]
[[nodiscard]] float encode_scale_of_tensor(std::span<const float> values, const Operand& cast);

}  // namespace ng
