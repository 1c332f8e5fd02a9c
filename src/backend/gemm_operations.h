// Operations on GEMM operands, and the GEMM. Rules for all operations: operations.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "backend/operand_spec.h"
#include "backend/operation_words.h"

namespace ng {

/// Fills packed->storage (packed->bytes == operand_bytes) from `source`, which must outlive
/// `packed` where operand_bytes is 0.
struct Prepare {
  static constexpr std::string_view kName = "prepare";
  static constexpr TimeKind kTime = TimeKind::quantize;
  PackedOperand* packed = nullptr;
  ConstView source;
  PrepareContext context;
  void each_output(const auto& /* f */) const {}
  void each_source(const auto& f) const { f("source", source); }
};

/// amax = the largest |value| that an operand by `spec` casts, after its transform, NaN aside:
/// what a scale of the whole is made of. Infinite where a value is not finite and such a scale
/// would be dropped for it, as Prepare does.
struct FindOperandAmax {
  static constexpr std::string_view kName = "find_operand_amax";
  static constexpr TimeKind kTime = TimeKind::quantize;
  float* amax = nullptr;
  OperandSpec spec;
  ConstView source;
  const float* mean = nullptr;  ///< as PrepareContext's
  void each_output(const auto& /* f */) const {}
};

/// Both operands of one source, with the bits of two of `Prepare`; a backend may read the source
/// once for both.
struct PrepareBoth {
  static constexpr std::string_view kName = "prepare_both";
  static constexpr TimeKind kTime = TimeKind::quantize;
  struct Made {
    PackedOperand* packed = nullptr;
    PrepareContext context;
  };
  std::array<Made, 2> made;
  ConstView source;
  void each_output(const auto& /* f */) const {}
  void each_source(const auto& f) const { f("source", source); }
};

/// Values of operand rows first_row ... and the first values.cols along k as
/// the GEMM sees them, transform included and, unless asked for, prescale not undone; codes (one
/// per uint16, row-major in the shape of values) where non-null, and null for FP32 elements. What
/// decodes all of them where non-null, of casts with scales: multipliers of the blocks, shaped as
/// scale_shape() says of the operand, NaN for E8M0's 0xFF, negative of blocks with the second of a
/// list of elements, and the numbers of the second level, shaped as tensor_scale_shape() says,
/// else 1.
struct Unpack {
  static constexpr std::string_view kName = "unpack";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  const PackedOperand* packed = nullptr;
  int64_t first_row = 0;
  View values;  ///< FP32
  uint16_t* codes = nullptr;
  float* scales = nullptr;
  float* tensor_scale = nullptr;
  bool undoes_prescale = false;  ///< values are divided by it
  void each_output(const auto& f) const { f("values", values); }
};

/// y (M, K) = or += x (M, k_padded) · Hᵀ, without the columns that padded K: what a product gave in
/// the basis of a transform along its columns. Of each group of x butterflies, then · 1/(g·c_g),
/// then the signs [linear.md 3], in FP32; rounded as a Gemm's y.
struct TurnBack {
  static constexpr std::string_view kName = "turn_back";
  static constexpr TimeKind kTime = TimeKind::quantize;
  View y;
  ConstView x;  ///< FP32
  Hadamard hadamard;
  Into into = Into::overwrite;  ///< or add
  Compute round = Compute::fp32;
  void each_output(const auto& f) const { f("output", y); }
};

/// y (rows, cols) = or += x ⊙ the factors by which the rounding of an operand, made of `source` by
/// `spec` and `context`, passes its gradient on [format/gradient_factor.h], in FP32; rounded as a
/// Gemm's y. x has the operand's rows, and its columns along K or the first of them; it may be y.
struct RoundingBackward {
  static constexpr std::string_view kName = "rounding_backward";
  static constexpr TimeKind kTime = TimeKind::quantize;
  View y;
  ConstView x;       ///< FP32
  OperandSpec spec;  ///< contracts columns
  ConstView source;
  PrepareContext context;       ///< without counters; no history is written
  Into into = Into::overwrite;  ///< or add
  Compute round = Compute::fp32;
  void each_output(const auto& f) const { f("output", y); }
};

/// y (M, N) = alpha · A (M, K) · B (N, K)ᵀ + bias by the accumulation rules of formats.md §9;
/// undoes scales and prescales. Both operands have the same k_padded and Hadamard transform; in
/// SumOrder::tile32 both are factors_are_bf16().
struct Gemm {
  static constexpr std::string_view kName = "gemm";
  View y;
  const PackedOperand* a = nullptr;
  const PackedOperand* b = nullptr;
  Into into = Into::overwrite;
  ConstView bias{};               ///< (1, N) FP32, read as it is; no rows: none
  Compute round = Compute::fp32;  ///< bf16: y is rounded so, also where it is stored as FP32
  SumOrder sum = SumOrder::chain;
  TimeKind time = TimeKind::gemm_fprop;
  void each_output(const auto& f) const { f("output", y); }
};

/// End of step: moves a history on and computes the next encode_scale. [formats.md §5]
struct RollDelayedScale {
  static constexpr std::string_view kName = "roll_delayed_scale";
  static constexpr TimeKind kTime = TimeKind::quantize;
  Operand cast;
  DelayedScale state;
  void each_output(const auto& /* f */) const {}
};

}  // namespace ng
