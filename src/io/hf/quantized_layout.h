// How quantized Hugging Face folders store a weight, as config.json says it. [interop.md 2]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ng::io {

/// What stands for P.weight (out, in), and the value of an element.
enum class WeightLayout : uint8_t {
  plain,     ///< P.weight: the value
  nvfp4,     ///< compressed-tensors: P.weight_packed, .weight_scale E4M3, .weight_global_scale F32:
             ///< E2M1 · scale / global
  mxfp4,     ///< compressed-tensors: P.weight_packed, .weight_scale E8M0: E2M1 · 2^(c - 127)
  mxfp8,     ///< compressed-tensors: P.weight E4M3, .weight_scale E8M0: E4M3 · 2^(c - 127)
  fp8,       ///< compressed-tensors: P.weight E4M3, .weight_scale F32: E4M3 · scale
  fp8_fine,  ///< transformers: P.weight E4M3, .weight_scale_inv F32: E4M3 · scale_inv
  modelopt,  ///< P.weight packed E2M1, .weight_scale E4M3, .weight_scale_2 F32:
             ///< E2M1 · scale · scale_2
  experts,   ///< gpt-oss, of experts alone: ExpertTensor
};

/// `block_rows` × `block_cols` values share a scale where they do not lie in whole rows or tensors;
/// 0: by the scales' shape.
struct QuantizedLayout {
  WeightLayout kind = WeightLayout::plain;
  int64_t block_rows = 0;
  int64_t block_cols = 0;
};

/// What compressed-tensors calls a layout of its own.
struct CompressedFormat {
  std::string_view name;
  WeightLayout layout;
};
inline constexpr CompressedFormat kCompressedFormats[] = {
    {"nvfp4-pack-quantized", WeightLayout::nvfp4},
    {"mxfp4-pack-quantized", WeightLayout::mxfp4},
    {"mxfp8-quantized", WeightLayout::mxfp8},
    {"float-quantized", WeightLayout::fp8}};

/// Of a parsed config.json: plain without quantization_config. Throws Error naming method or format
/// where it is none of these.
[[nodiscard]] QuantizedLayout parse_quantized_layout(const JsonObject& config);

/// The same of a folder.
[[nodiscard]] QuantizedLayout read_quantized_layout(const std::string& folder);

}  // namespace ng::io
