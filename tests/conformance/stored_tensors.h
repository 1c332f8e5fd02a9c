// Tensors as they persist, in shapes whose rows end inside blocks and bytes.
#pragma once

#include <string>
#include <vector>

#include "conformance.h"
#include "stored_casts.h"
#include "support/stored_tensor.h"

namespace ng::conformance {

inline std::vector<Operand> stored_casts() {
  return {cast_of("fp32"),
          cast_of("bf16"),
          cast_of("fp16"),
          cast_of("bf16", Rounding::stochastic),
          cast_of("fp8_e4m3"),
          scaled_by_power("fp8_e4m3"),
          scaled_by_power("fp16"),
          in_blocks("fp8_e4m3", 1, 128),
          cast_of("mxfp8_e4m3"),
          cast_of("mxfp8_e5m2"),
          cast_of("mxfp6_e3m2"),
          cast_of("mxfp6_e2m3"),
          cast_of("mxfp4", Rounding::stochastic),
          cast_of("nvfp4"),
          in_blocks("nvfp4", 16, 16),
          cast_of("mxint8"),
          cast_of("int8"),
          cast_of("int4")};
}

/// Of moments alone. [linear.md 9]
inline std::vector<Operand> moment_casts() {
  Operand map = in_blocks("int8", 1, 256), positive = map, expand = in_blocks("fp8_e4m3", 1, 128),
          parts = cast_of("bf16");
  map.map = positive.map = CodeMap::dynamic;
  positive.is_positive = true;
  expand.expand = true;
  parts.parts = 2;
  Operand infinite = parts;
  infinite.overflow = Overflow::special;
  return {map, positive, expand, parts, infinite};
}

struct Size {
  int64_t rows, cols;
};
inline constexpr Size kSizes[] = {{1, 1}, {3, 40}, {17, 129}, {2, 5000}, {40, 256}};

/// Codes, scales and values of a tensor, for comparing.
inline void add(Results& results, const std::string& name, const StoredTensor& tensor) {
  std::vector<float> codes;
  if (tensor.stored().cast.element->bits <= 16)
    for (const uint16_t code : tensor.codes()) codes.push_back(code);
  else
    codes = tensor.floats();
  results[name] = Matrix::row(codes);
  std::vector<float> scales;
  for (const uint8_t byte : tensor.scale_bytes()) scales.push_back(byte);
  if (!scales.empty()) results[name + " scales"] = Matrix::row(scales);
  std::vector<float> others;
  for (const uint8_t byte : tensor.other_bytes()) others.push_back(byte);
  if (!others.empty()) results[name + " others"] = Matrix::row(others);
}

/// FP32 values in memory of a backend: spread over binades, some zeros.
inline Tensor spread(const Place& with, const Size& size, uint64_t seed, float scale) {
  Matrix values = Matrix(size.rows, size.cols).fill_uniform(seed, scale);
  for (int64_t r = 0; r < size.rows; ++r)
    for (int64_t c = 0; c < size.cols; ++c) {
      const int shift = static_cast<int>((r * 7 + c * 3) % 11);
      values.at(r, c) *= shift == 10 ? 0.0f : pow2(-shift);
    }
  return with.fp32(values);
}

}  // namespace ng::conformance
