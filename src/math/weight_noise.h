// What noise on weights is made of, on host and device: draws, and the scale of a block.
// backend/drawn_noise.h has the draws of each kind by element. [recipes.md §1; errata-2, 2, 6]
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/host_device.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/philox.h"

namespace ng {

/// Eight rounded normal draws of 16 bits each, element i in nibble i: sign·8 + magnitude 0, 1 or 2.
/// Pr(±2) = 3/4·2^-8, Pr(±1) = (3/4)²·1/2·(1 - Pr(±2)). [recipes.md §1.1, eq. 10]
NG_HD constexpr uint32_t rounded_normals(const PhiloxBlock& r) {
  constexpr uint32_t kLowest = 0x11111111u;
  const uint32_t t = r[0] | r[1];  // 3/4 per bit
  uint32_t u = r[2] & r[3];
  u &= u >> 1;
  u &= u >> 2;  // bit 0 of each nibble: 2^-8
  const uint32_t two = u & t & kLowest;
  const uint32_t one = (t >> 1) & (t >> 2) & (r[0] >> 3) & kLowest & ~two;
  return (r[1] & 0x88888888u) | (two << 1) | one;
}

/// Pr(±2), Pr(±1) and Pr(0), whichever sign. [eq. 10]
inline constexpr double kPrTwo = 0.75 * 0x1p-8;
inline constexpr double kPrOne = 0.75 * 0.75 * 0.5 * (1 - kPrTwo);
inline constexpr double kPrZero = 1 - kPrOne - kPrTwo;

/// What such a nibble stands for; -0 occurs.
NG_HD constexpr float rounded_normal_of(uint32_t nibble) {
  const auto magnitude = static_cast<float>(nibble & 3u);
  return (nibble & 8u) != 0 ? -magnitude : magnitude;
}

/// (h + 1/2)/2^16 - 1/2 of 16 bits h, exact: uniform in (-1/2, 1/2). [recipes.md §0]
NG_HD constexpr float centered_uniform(uint32_t h) {
  return (static_cast<float>(h) + 0.5f) * 0x1p-16f - 0.5f;
}

namespace math {

/// 2^e in FP32, exact where e is whole, else within an ulp; NaN in, NaN out.
NG_HD inline float exp2(float e) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  if (e != e) return e;
  if (e >= 128) return std::numeric_limits<float>::infinity();
  const double whole = std::floor(double{std::max(e, -200.0f)});
  const double part = exp((std::max(double{e}, -200.0) - whole) * kLn2);
  return static_cast<float>(std::ldexp(part, static_cast<int>(whole)));
}

}  // namespace math

/// b_t of a block, by two operations in FP32. [recipes.md §1.1, eq. 11]
NG_HD inline float bits_of_block(float b_i, float b_init, float b_target) {
  return b_target + b_i * (b_init - b_target);
}

/// amax·2^(1 - b_t), the exponent at most 127. [recipes.md §1.1; errata-2, 6]
NG_HD inline float noise_scale(float amax, float b_t) {
  return amax * math::exp2(std::min(1 - b_t, 127.0f));
}

/// -ln2, of ∂s/∂b_t.
inline constexpr float kMinusLn2 = -0x1.62e43p-1f;

// ---------------------------------------------------------------- NIPQ [recipes.md §1.3]

NG_HD inline double sigmoid(double x) { return 1 / (1 + math::exp(-x)); }
NG_HD inline double softplus(double x) { return x > 40 ? x : math::log(1 + math::exp(x)); }

/// Bits of a tensor, without noise.
NG_HD inline double proxy_bits(double beta) { return 2 + 12 * sigmoid(beta); }

/// What NIPQ clips at and adds in training, and how that changes with what it learns.
struct NoiseProxy {
  double alpha = 0;  ///< softplus(a)
  double bits = 0;   ///< b, the nearest whole number to proxy_bits(β) + u
  double delta = 0;  ///< α/(2^(b-1) - 1)
  double delta_by_alpha = 0, delta_by_bits = 0;

  /// NaN in `beta` or `u` makes Δ NaN.
  NG_HD NoiseProxy(double a, double beta, double u)
      : alpha(softplus(a)), bits(std::nearbyint(proxy_bits(beta) + u)) {
    constexpr double kMost = 1000;  // of what a given u makes
    const double power =
        bits != bits ? bits
                     : std::ldexp(1.0, static_cast<int>(std::clamp(bits, -kMost, kMost)) - 1);
    const double levels = power - 1;
    delta = alpha / levels;
    delta_by_alpha = 1 / levels;
    delta_by_bits = double{kMinusLn2} * power * alpha / (levels * levels);
  }
};

}  // namespace ng
