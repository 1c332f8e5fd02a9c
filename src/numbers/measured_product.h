// One product of quantized matrices beside the exact one.
#pragma once

#include <functional>
#include <vector>

#include "backend/backend.h"
#include "numbers/errors.h"

namespace ng {

/// C (M, N) = A (M, K) · B (N, K)ᵀ; B may be given as (K, N).
struct ProductJob {
  Rows<const float> a, b;
  bool b_is_turned = false;
  Operand a_cast, b_cast;
  Hadamard hadamard;
  SumOrder sum = SumOrder::chain;
  uint64_t seed = 1;  ///< of stochastic rounding: purposes fprop_input and fprop_weight
  Threads threads;
  Backend* backend = nullptr;  ///< that multiplies; null: the cpu backend's kernels

  [[nodiscard]] int64_t m() const { return a.rows; }
  [[nodiscard]] int64_t n() const { return b_is_turned ? b.cols : b.rows; }
  [[nodiscard]] int64_t k() const { return a.cols; }
};

/// An operand of the product, and the key of its draws.
[[nodiscard]] OperandSpec spec_of(const ProductJob& job, Side side);
[[nodiscard]] RandomKey key_of(const ProductJob& job, Side side);

/// Throws Error where of the blocks along K the shorter does not divide the longer.
void require_fitting_blocks(const Operand& a, const Operand& b);

/// Throws Error where the order of sums does not take such factors.
void require_summable(SumOrder sum, const Operand& a, const Operand& b);

/// C alone, row by row.
[[nodiscard]] std::vector<float> product(const ProductJob& job);

/// What the products differ by: C is the backend's by the accumulation rules of formats.md §9,
/// E the FP64 product of A and B, D that of the values they were rounded to.
struct MeasuredProduct {
  std::vector<float> c;       ///< (M, N)
  ErrorMetrics total;         ///< C against E
  ErrorMetrics quantization;  ///< D against E
  ErrorMetrics accumulation;  ///< C against D
  OperandStats a_counts, b_counts;
};

using ProductProgress = std::function<void(int64_t rows)>;  ///< of M

/// The sums along K of E and D have eight interleaved FP64 chains.
[[nodiscard]] MeasuredProduct measure_product(const ProductJob& job,
                                              const ProductProgress& progress);

}  // namespace ng
