// Llama 3's scaling of rotary frequencies as llama.cpp has it: a factor for each frequency.
#pragma once

#include <string_view>
#include <vector>

#include "io/gguf/gguf.h"
#include "model/config.h"

namespace ng::io {

/// F32 [head_dim / 2]: by what llama.cpp divides each frequency.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

/// Whether llama.cpp looks for them.
[[nodiscard]] bool has_rope_factors(Architecture architecture);

/// The values of that tensor, the highest frequency first; none of a model without scaling. In FP32
/// as the converter computes them. [llama.cpp conversion/llama.py, generate_extra_tensors]
[[nodiscard]] std::vector<float> gguf_rope_factors(const ModelConfig& config);

/// The scaling whose factors a file has, of a model of this head_dim and rope_theta; none of a file
/// without them or where all are 1. It is the one with low_freq_factor 1 and high_freq_factor 4,
/// which Llama 3 has, where these give the factors. Contexts and turns that are multiples of each
/// other scale alike, so that others are told up to that. Throws Error where no scaling of Llama
/// 3's kind gives them.
[[nodiscard]] RopeScaling read_gguf_rope(const Gguf& file, const ModelConfig& config);

}  // namespace ng::io
