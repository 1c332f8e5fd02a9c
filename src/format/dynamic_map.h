// 256 values of a code of eight bits that lie closer the smaller they are, as Adam's moments do:
// decades of midpoints, each with twice as many as the one below. [Dettmers et al. 2022, 8-bit
// optimizers; linear.md 9]
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace ng {

/// What a code of the map stands for. Decade i of 7 has the middles of n = 2^i parts of
/// [1/10, 1] · 10^(i - 6), of positive values alone n = 2^(i + 1); then there is 1. Part j is
/// (1/10 + 9(2j + 1)/(20n)) · 10^(i - 6), rounded once: numerator and denominator are exact, and so
/// short that a quotient in FP64 decides the rounding to FP32.
NG_HD constexpr float dynamic_value(bool is_positive, uint32_t code) {
  const int zero = is_positive ? 0 : 127, more = is_positive ? 1 : 0;
  const int above = static_cast<int>(code) - zero, magnitude = above < 0 ? -above : above;
  if (magnitude == 0) return 0;
  if (code == 255) return 1;
  // The decades before one with n values have n - 1, of positive ones n - 2.
  const int place = magnitude + more, i = high_bit(static_cast<uint32_t>(place)) - more;
  const int n = 1 << (i + more), j = place - n;
  double below = 20.0 * n;
  for (int decade = i; decade < 6; ++decade) below *= 10;
  const auto value = static_cast<float>((2.0 * n + 9.0 * (2 * j + 1)) / below);
  return above < 0 ? -value : value;
}

/// Between that of a code and the next, fl((a + b) / 2).
NG_HD constexpr float dynamic_middle(bool is_positive, uint32_t code) {
  const double value = dynamic_value(is_positive, code);
  return static_cast<float>((value + dynamic_value(is_positive, code + 1)) / 2);
}

/// What is coded of x under a scale of which `inverse` is fl(1 / scale), infinite below 2^-128.
NG_HD constexpr float dynamic_argument(float x, float inverse) {
  const float y = x == 0 ? 0.0f : x * inverse;
  return y > 1 ? 1.0f : y < -1 ? -1.0f : y;
}

/// Values of a block are fl(value of the code · scale), scale its largest magnitude.
class DynamicMap {
 public:
  /// `is_positive`: no value is below zero.
  [[nodiscard]] static const DynamicMap& of(bool is_positive);

  [[nodiscard]] const std::array<float, 256>& values() const { return values_; }
  /// Between each value and the next, fl((a + b) / 2).
  [[nodiscard]] const std::array<float, 255>& middles() const { return middles_; }
  [[nodiscard]] uint8_t code_of_zero() const { return code(0.0f); }
  /// Of the nearest value to y in [-1, 1], the lower one of two: how many midpoints are below y.
  [[nodiscard]] uint8_t code(float y) const {
    unsigned at = first_[bin_of(y)];
    while (at < middles_.size() && middles_[at] < y) ++at;
    return static_cast<uint8_t>(at);
  }
  /// The same of x under a scale: see dynamic_argument().
  [[nodiscard]] uint8_t code(float x, float inverse) const {
    return code(dynamic_argument(x, inverse));
  }

 private:
  explicit DynamicMap(bool is_positive);

  // Bins of y: its sign and the leading bits of its magnitude from 2^-23 on, below which there is
  // no midpoint.
  static constexpr int kBinBits = 6;  // of the mantissa
  static constexpr int kShift = 23 - kBinBits;
  static constexpr uint32_t kLeast = (127u - 23) << kBinBits;
  static constexpr uint32_t kBins = (23u << kBinBits) + 2;  // of a sign
  [[nodiscard]] static uint32_t bin_of(float y) {
    const auto bits = std::bit_cast<uint32_t>(y);
    const uint32_t magnitude = (bits & 0x7FFFFFFFu) >> kShift;
    uint32_t bin = magnitude < kLeast ? 0 : magnitude - kLeast + 1;
    if (bin >= kBins) bin = kBins - 1;  // NaN has some code
    return bin + (bits >> 31) * kBins;
  }

  std::array<float, 256> values_;
  std::array<float, 255> middles_;
  std::array<uint8_t, 2 * kBins> first_{};  ///< how many midpoints are below all of a bin
};

}  // namespace ng
