// Normally distributed numbers: Box-Muller on the draws of a key, the same bits on every backend.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "math/log.h"
#include "math/philox.h"
#include "math/sincos.h"

namespace ng::math {

/// Elements 2·pair and 2·pair + 1 of a tensor (row · cols + col) filled from N(0, 1), from the
/// first two words of draw group `pair`: u1 = (w0 + ½)/2^32, u2 = w1/2^32, radius sqrt(-2 ln u1),
/// angle 2π·u2; the even element takes the cosine. |z| <= 6.73. In double: the caller scales and
/// rounds once.
NG_HD inline std::array<double, 2> normal_pair(const RandomKey& key, uint64_t pair) {
  const PhiloxBlock words = draw(key, pair);
  const double radius = std::sqrt(-2.0 * log((words[0] + 0.5) * 0x1p-32));
  const SinCos angle = sincos_turns(words[1] * 0x1p-32);
  return {radius * angle.cos, radius * angle.sin};
}

/// Element `element` of N(0, deviation²), rounded once to FP32.
NG_HD inline float normal(const RandomKey& key, uint64_t element, float deviation) {
  return static_cast<float>(normal_pair(key, element / 2)[element % 2] * deviation);
}

/// Elements 0, 1, ... of N(0, deviation²) as normal() has them; each pair is drawn once.
inline void fill_normal(const RandomKey& key, float deviation, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const std::array<double, 2> pair = normal_pair(key, i / 2);
    values[i] = static_cast<float>(pair[0] * deviation);
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(pair[1] * deviation);
  }
}

}  // namespace ng::math
