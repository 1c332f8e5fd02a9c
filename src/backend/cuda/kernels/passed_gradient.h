// What RoundingBackward makes of a value that the encoder was given. [format/gradient_factor.h]
#pragma once

#include "backend/cuda/kernels/values.h"
#include "backend/operation_words.h"
#include "format/gradient_factor.h"

namespace ng::cuda {

struct PassedGradient {
  Target y;
  Source x;
  GradientFactor factor;
  Into into = Into::overwrite;  ///< or add
  bool is_rounded = false;      ///< to BF16, whatever y is stored as

  /// Of the operand's value (row, k), of which the encoder is given `u`; y may end before it.
  __device__ void put(int64_t row, int64_t k, float u) const {
    if (k >= y.cols) return;
    float t = x(row, k) * factor_at(factor, u);
    if (into == Into::add) t = y(row, k) + t;
    y.put(row, k, is_rounded ? round_to_bf16(t) : t);
  }
};

}  // namespace ng::cuda
