// How quantized Hugging Face folders store weights, as their configuration says it. [interop.md 2]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ng::io {

/// What an export writes for P.weight (out, in), and the value of an element. Reading goes by the
/// tensors (io/hf/quantized_tensor.h).
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
};

/// What compressed-tensors calls a layout of its own; the first of a layout is what is written.
struct CompressedFormat {
  std::string_view name;
  WeightLayout layout;
};
inline constexpr CompressedFormat kCompressedFormats[] = {
    {"nvfp4-pack-quantized", WeightLayout::nvfp4},
    {"mxfp4-pack-quantized", WeightLayout::mxfp4},
    {"mxfp8-quantized", WeightLayout::mxfp8},
    {"float-quantized", WeightLayout::fp8},
    {"naive-quantized", WeightLayout::fp8}};

/// rows × cols values of a matrix that share a scale.
struct ScaleBlock {
  int64_t rows = 1;
  int64_t cols = 1;

  friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

/// What a configuration adds to what the tensors themselves say: the shape of scales does not say
/// how large the blocks are that end early.
struct QuantizedLayout {
  bool is_quantized = false;  ///< by its own words
  bool has_experts = false;   ///< gpt-oss's: ExpertTensor
  /// Of FP8 weights: one for each group of modules that has some.
  std::vector<ScaleBlock> blocks{};
};

/// Of a parsed config.json: nothing without quantization_config. Throws Error naming method,
/// format or algorithm where it is none that is read.
[[nodiscard]] QuantizedLayout parse_quantized_layout(const JsonObject& config);

/// Of a folder: config.json's, else hf_quant_config.json's.
[[nodiscard]] QuantizedLayout read_quantized_layout(const std::string& folder);

}  // namespace ng::io
