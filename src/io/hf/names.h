// What transformers calls a model's tensors, and how it lays them out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace ng::io {

inline constexpr std::string_view kHfWeights = "model.safetensors";
inline constexpr std::string_view kHfIndex = "model.safetensors.index.json";
inline constexpr std::string_view kHfConfig = "config.json";
inline constexpr size_t kMaxHfConfigBytes = 1 << 20;
inline constexpr std::string_view kHfQuantConfig = "hf_quant_config.json";  ///< modelopt's
inline constexpr size_t kMaxQuantConfigBytes = 16 << 20;  ///< may name every layer
inline constexpr std::string_view kGenerationConfig = "generation_config.json";

/// A tensor of the file. GPT-2's classes in transformers always have biases: where the model has
/// none, a row stands for zeros.
struct HfTensor {
  ParameterSpec spec;
  int64_t parameter = -1;  ///< index in parameter_table(config); -1: zeros
};

/// All tensors that a folder holds, in the order of parameter_table.
[[nodiscard]] std::vector<HfTensor> hf_tensors(const ModelConfig& config);

/// Stored shape: vectors (n), matrices (out, in) or, transposed, (in, out).
[[nodiscard]] std::vector<int64_t> hf_shape(const ParameterSpec& spec);

/// Without the "transformer." or "model." that the base model's own files lack.
[[nodiscard]] std::string_view without_prefix(std::string_view name, Architecture architecture);

/// Tensors that old files carry and nobody needs: causal masks, rotary frequencies.
[[nodiscard]] bool is_known_buffer(std::string_view name, Architecture architecture);

}  // namespace ng::io
