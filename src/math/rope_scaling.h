// How Llama 3 stretches the rotary frequencies of a model to a longer context.
#pragma once

#include <cstdint>

namespace ng {

/// Frequencies that turn less than low_freq_factor times in the original context are divided by
/// `factor`, those that turn more than high_freq_factor times stay, and between them it is a blend.
struct RopeScaling {
  double factor = 1;  ///< at least 1
  double low_freq_factor = 1;
  double high_freq_factor = 4;   ///< above low_freq_factor
  int64_t original_context = 0;  ///< tokens; 0: all frequencies stay

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

namespace math {

/// A frequency (radians per position), scaled.
/// [transformers 5.24, modeling_rope_utils.py, _compute_llama3_parameters]
constexpr double scaled_frequency(const RopeScaling& by, double frequency) {
  if (by.original_context == 0) return frequency;
  constexpr double kTwoPi = 0x1.921fb54442d18p+2;
  const double turns = static_cast<double>(by.original_context) * frequency / kTwoPi;
  if (turns > by.high_freq_factor) return frequency;
  if (turns < by.low_freq_factor) return frequency / by.factor;
  const double smooth = (turns - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor);
  return (1 - smooth) * frequency / by.factor + smooth * frequency;
}

}  // namespace math
}  // namespace ng
