// Elementwise operations, reductions, and those that end a step. Rules for all operations:
// operations.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/operand_spec.h"
#include "backend/operation_words.h"

namespace ng {

// ---------------------------------------------------------------- elementwise, reductions

struct Fill {
  static constexpr std::string_view kName = "fill";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  View x;
  float value = 0;
  void each_output(const auto& f) const { f("x", x); }
};

/// Zero bytes: counters, control blocks, codes.
struct Clear {
  static constexpr std::string_view kName = "clear";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  std::span<std::byte> bytes;
  void each_output(const auto& /* f */) const {}
};

/// y = x, of any two types: elements and scales decoded, rounded to what y is stored as.
struct Copy {
  static constexpr std::string_view kName = "copy";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  View y;
  ConstView x;
  void each_output(const auto& f) const { f("y", y); }
};

/// y = a + b
struct Add {
  static constexpr std::string_view kName = "add";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  View y;
  ConstView a, b;
  void each_output(const auto& f) const { f("y", y); }
};

/// y = a·x + b·y, in FP32, every operation rounded once; where b is 0 y is not read.
struct Combine {
  static constexpr std::string_view kName = "combine";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  View y;       ///< FP32
  ConstView x;  ///< FP32
  float a = 1, b = 1;
  void each_output(const auto& f) const { f("y", y); }
};

/// y = x / (sqrt(sum) + 1e-7), the divisor rounded to FP32: of norm 1. May be in place.
struct Normalize {
  static constexpr std::string_view kName = "normalize";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  View y;                                  ///< FP32
  ConstView x;                             ///< FP32
  const double* sum_of_squares = nullptr;  ///< of x
  void each_output(const auto& f) const { f("y", y); }
};

/// sum[c] += Σ_t x[t][c]: bias gradients. FP32, fixed order.
struct AddColumnSums {
  static constexpr std::string_view kName = "add_column_sums";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  View sum;  ///< (1, cols) FP32
  ConstView x;
  void each_output(const auto& f) const { f("sum", sum); }
};

/// mean[c] of every column of x: the sum in FP64, token by token, over their number, rounded to
/// FP32; `in_bf16`: that rounded to BF16.
struct FindColumnMeans {
  static constexpr std::string_view kName = "find_column_means";
  static constexpr TimeKind kTime = TimeKind::quantize;
  View mean, in_bf16;  ///< (1, cols) FP32
  ConstView x;
  void each_output(const auto& f) const {
    f("mean", mean);
    f("in_bf16", in_bf16);
  }
};

/// y = x - row, in every row.
struct SubtractRow {
  static constexpr std::string_view kName = "subtract_row";
  static constexpr TimeKind kTime = TimeKind::quantize;
  View y;  ///< FP32
  ConstView x;
  ConstView row;  ///< (1, cols) FP32
  void each_output(const auto& f) const { f("y", y); }
};

/// *sum += Σ x, in FP64 by the fixed 16-lane tree.
struct AddSum {
  static constexpr std::string_view kName = "add_sum";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  double* sum = nullptr;
  ConstView x;
  void each_output(const auto& /* f */) const {}
};

/// *sum += Σ x², in FP64 by the fixed 16-lane tree.
struct AddSumOfSquares {
  static constexpr std::string_view kName = "add_sum_of_squares";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  double* sum = nullptr;
  ConstView x;
  void each_output(const auto& /* f */) const {}
};

/// *count += number of NaN and infinite values.
struct AddNonfinite {
  static constexpr std::string_view kName = "add_nonfinite";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  uint64_t* count = nullptr;
  ConstView x;
  void each_output(const auto& /* f */) const {}
};

/// x = N(0, deviation²) by Box-Muller on the draws of `key`: element (row, col) takes those of
/// element row · cols + col, whatever the stride.
struct FillNormal {
  static constexpr std::string_view kName = "fill_normal";
  static constexpr TimeKind kTime = TimeKind::elementwise;
  View x;  ///< FP32
  float deviation = 1;
  RandomKey key;
  void each_output(const auto& f) const { f("x", x); }
};

// ---------------------------------------------------------------- step

/// What of a parameter persists.
enum class StoredState : uint32_t { none, weight, master, moment1, moment2 };

/// Decides, on the device, whether and how far the step is taken.
struct StepControl {
  double loss = 0;       ///< sum over the step's unmasked targets
  double grad_norm = 0;  ///< before clipping
  float grad_scale = 1;  ///< gradients are multiplied by this: clipping
  uint32_t skip = 0;     ///< 1: loss, gradient norm or an operand was not finite, or a state would
                         ///< overflow; nothing is updated
  /// The first state that would take a value that it does not hold, and of which parameter.
  StoredState overflowing = StoredState::none;
  uint32_t overflowing_parameter = 0;
};

/// Whether nothing is to be updated. `control` null: never.
[[nodiscard]] inline bool is_skipped(const StepControl* control) {
  return control != nullptr && control->skip != 0;
}
/// What gradients are multiplied by. `control` null: 1.
[[nodiscard]] inline float grad_scale_of(const StepControl* control) {
  return control == nullptr ? 1.0f : control->grad_scale;
}

/// From the sum of squares of all gradients: norm, clip factor min(1, clip/(norm + 1e-6)) (clip 0:
/// none), and skip where loss, norm or any operand counter is not finite.
struct DecideStep {
  static constexpr std::string_view kName = "decide_step";
  static constexpr TimeKind kTime = TimeKind::optimizer;
  StepControl* control = nullptr;
  const double* sum_of_squares = nullptr;
  double clip = 0;
  const OperandStats* stats = nullptr;
  int64_t stats_count = 0;
  void each_output(const auto& /* f */) const {}
};

}  // namespace ng
