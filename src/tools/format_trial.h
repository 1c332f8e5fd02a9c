// What formats make of the tensors of files, and which of them is good enough.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "numbers/errors.h"
#include "numbers/narrow_matrix.h"
#include "tools/tensor_facts.h"

namespace ng {

/// One format on one tensor, by one of its scale rules.
struct FormatTrial {
  std::string name;
  Operand cast;
  std::string rule;  ///< "floor"; empty where the format has no choice
  OperandStats counts;
  ErrorMetrics errors;
  double bits = 0;  ///< per value of this tensor, with everything that decodes it
  float low_scale = 1, high_scale = 1;  ///< least and greatest decode multiplier, tensor's included
  bool has_scale = false;               ///< of a block with values that say something
  bool has_nan_scale = false;           ///< of a block that is NaN as a whole
};

/// A format by its own rule, which `cast` and recipes take where nobody says another, then by each
/// other rule that it has.
using RuleTrials = std::vector<FormatTrial>;

/// What is tried: the cast that `name` stands for, with blocks along an axis of the tensor.
struct TrialJob {
  std::string name;
  Operand cast;
  int64_t axis = -1;
  bool all_rules = true;  ///< else its own alone
};
[[nodiscard]] RuleTrials try_format(const io::SafetensorsEntry& entry, const TrialJob& job,
                                    Threads threads, const TensorProgress& progress);

/// The first of each: what the formats do where nobody names a rule.
[[nodiscard]] std::vector<FormatTrial> own_rules(const std::vector<RuleTrials>& trials);

/// What a format does to |x| in [2^e, 2^(e+1)): '^' above its largest value, 'N' normal in every
/// block, 'n' in some, 's' subnormal, '0' rounds to zero, '?' all blocks are NaN.
[[nodiscard]] char binade_state(const FormatTrial& trial, int e);

/// Quality that a recommendation promises: rounding error of 1 %, 3.2 % and 10 % rms.
inline constexpr std::array<double, 3> kSqnrLevels = {40, 30, 20};

/// A high SQNR may come from a few large values alone. MXFP4 flushes some 10 % of a normal
/// distribution and saturates 2 %.
inline constexpr double kMostUnderflow = 0.25;
inline constexpr double kMostSaturation = 0.05;

/// Whether it keeps so many of the values that its SQNR tells of most of them.
[[nodiscard]] bool keeps_values(const FormatTrial& trial);

/// The trial of fewest bits per value with at least `sqnr_db` (the better of equals) among those
/// that keep the values, or, `keeping` false, among the others; null: none.
[[nodiscard]] const FormatTrial* cheapest(const std::vector<FormatTrial>& trials, double sqnr_db,
                                          bool keeping = true);

}  // namespace ng
