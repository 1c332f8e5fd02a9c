// A product as the kernels of gemm.cc and unit_gemm.cc compute it.
#pragma once

#include "backend/cuda/kernels/operand.h"

namespace ng::cuda {

/// y (M, N) = factor · A (M, K) · B (N, K)ᵀ, with the operands' late scales, + bias.
struct GemmJob {
  Target y;
  CardOperand a, b;
  Source bias;        ///< (1, N)
  int64_t block = 0;  ///< the smaller length along K of both blocks
  float factor = 1;
  Into into = Into::overwrite;
  bool is_rounded = false;  ///< to BF16, whatever y is stored as
};

/// A finished value `t` of (row, col), without bias.
__device__ inline void put_value(const GemmJob& g, int64_t row, int64_t col, float t) {
  if (g.bias.rows > 0) t += g.bias(0, col);
  if (g.into == Into::add) t = g.y(row, col) + t;
  g.y.put(row, col, g.is_rounded ? round_to_bf16(t) : t);
}
__device__ inline void put_product(const GemmJob& g, int64_t row, int64_t col, float acc) {
  put_value(g, row, col, acc * (g.a.late_scale(row) * g.b.late_scale(col) * g.factor));
}

/// Rows of A and of B that are not in a product: [M] and [N], not 0 of those; null: all are.
struct LeftOut {
  const uint32_t* a = nullptr;
  const uint32_t* b = nullptr;
  [[nodiscard]] __device__ bool has(int64_t row, int64_t col) const {
    return (a != nullptr && a[row] != 0) || (b != nullptr && b[col] != 0);
  }
};

}  // namespace ng::cuda
