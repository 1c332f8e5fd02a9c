// What a number format must have so that noise of a bit-width does on weights what it is meant to.
// [source 002, Lemmas 1 and 2, Propositions 3 and 4, Table C.1; recipes.md §1.1; errata-2, 11]
#pragma once

#include <algorithm>
#include <cmath>

namespace ng {

/// τ of noise: log2 of its smallest magnitude that is not zero.
inline constexpr int kRoundedNormalTau = 0;
inline constexpr int kUniform4Tau = -4;  ///< of 4 bits

/// Bits of a floating-point format that suffice for noise of b_t bits.
struct NoisePrecision {
  int exponent_w = 0;      ///< of w: ceil(log2(b_t + 1 - τ))
  int exponent_w_hat = 0;  ///< of ŵ: ceil(log2(b_t + 3 - τ))
  int mantissa_w_hat = 0;  ///< of ŵ: the least m with b_t <= m + 2 + τ
};

/// A row of Table C.1. b_t > τ - 1
inline NoisePrecision precision_for_noise(double b_t, int tau = kRoundedNormalTau) {
  return {.exponent_w = static_cast<int>(std::ceil(std::log2(b_t + 1 - tau))),
          .exponent_w_hat = static_cast<int>(std::ceil(std::log2(b_t + 3 - tau))),
          .mantissa_w_hat = std::max(0, static_cast<int>(std::ceil(b_t - 2 - tau)))};
}

/// No noise but zero is lost where ŵ is rounded to m bits of mantissa. [Lemma 1]
constexpr bool keeps_noise(double b_t, int mantissa_bits, int tau = kRoundedNormalTau) {
  return b_t < mantissa_bits + 2 + tau;
}

/// log2 of the largest |w_ij| that may vanish beside noise in a block whose largest magnitude is
/// amax, ŵ having m bits of mantissa: what lies above survives. [Lemma 2]
inline double vanishes_up_to(double amax, double b_t, int mantissa_bits,
                             int tau = kRoundedNormalTau) {
  return std::floor(tau + 2 - b_t + std::log2(amax)) - mantissa_bits;
}

}  // namespace ng
