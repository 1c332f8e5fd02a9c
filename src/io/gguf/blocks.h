// The blocks that GGUF stores rows of values as. [interop.md 1.4; llama.cpp ggml/src/ggml-quants.c]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/gguf/gguf.h"

namespace ng::io {

/// Values of whole blocks of a type with blocks: Q8_0 fl32(q · d); MXFP4 E2M1 · 2^(c - 127), NaN
/// for c = 255; NVFP4 E2M1 · E4M3, 0 for the scale code 7F, their elements of -0 +0; others as
/// find_quants() says.
/// values.size() == blocks · type.block.
void decode_gguf_blocks(const GgufTensorType& type, std::span<const std::byte> blocks,
                        std::span<float> values);

/// Whether Q8_0 has a scale for values up to this: amax / 127 as F16.
[[nodiscard]] bool fits_q8_0(float amax);

/// Rows of finite values that fit, as Q8_0: per 32 values d32 = amax / 127, q = round half away
/// (x · (1 / d32)), 0 where 1 / d32 is infinite, stored d = F16(d32), all in FP32. values.size() is
/// a multiple of 32; blocks.size() == values.size() / 32 · 34.
void encode_q8_0(std::span<const float> values, std::span<std::byte> blocks);

}  // namespace ng::io
