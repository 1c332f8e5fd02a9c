// llama.cpp's blocks of small integers and their scales, which are read and not written.
// [llama.cpp ggml/src/ggml-common.h, ggml-quants.c; gguf-py gguf/quants.py]
#pragma once

#include <cstdint>
#include <string_view>

namespace ng::io {

/// Writes the values of one block: to the bit what gguf-py's dequantize() gives, that is
/// fl32(d · q) or fl32(fl32(d · q) + m) in 32 values, and in 256 of the K-quants, where d and m are
/// themselves fl32 of an F16 number and a small integer for each 16 or 32 values.
using DecodeQuants = void (*)(const uint8_t* block, float* values);

/// Of a type by its name: Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K; null for another.
[[nodiscard]] DecodeQuants find_quants(std::string_view type);

}  // namespace ng::io
