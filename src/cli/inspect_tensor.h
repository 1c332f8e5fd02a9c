// What the values of a tensor are like, and what formats make of them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "io/safetensors.h"
#include "numbers/errors.h"
#include "numbers/narrow_matrix.h"

namespace ng::cli {

/// Values by their binades: count[e + 149] of |x| in [2^e, 2^(e+1)), zeros apart.
struct Binades {
  static constexpr int kLowest = -149;
  std::array<uint64_t, 277> count{};

  [[nodiscard]] uint64_t at(int e) const { return count[static_cast<size_t>(e - kLowest)]; }
};

/// Statistics of the finite values, in FP64.
struct TensorFacts {
  uint64_t values = 0, zeros = 0, nan = 0, inf = 0;
  double min = 0, max = 0;  ///< 0 where no value is finite
  double sum = 0, squares = 0;
  Binades binades;

  [[nodiscard]] uint64_t finite() const { return values - nan - inf; }
  [[nodiscard]] double amax() const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] double rms() const;
};

/// One format on one tensor, by the scale rule with the highest SQNR of those it has.
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

/// How far it has come, from 0 to 1.
using InspectProgress = std::function<void(double share)>;

[[nodiscard]] TensorFacts facts_of(const io::SafetensorsEntry& entry, Threads threads,
                                   const InspectProgress& progress);

/// `name` is a format of the command line; blocks lie along the last axis.
[[nodiscard]] FormatTrial try_format(const io::SafetensorsEntry& entry, const std::string& name,
                                     Threads threads, const InspectProgress& progress);

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

}  // namespace ng::cli
