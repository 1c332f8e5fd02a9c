// A power by which a block's values fill the range of E4M3: the code of x is that of E4M3's number
// nearest to y = (|x| / center)^power / scale, its value (|q| · scale)^(1/power) · center.
// [Xi et al. 2025, COAT, dynamic range expansion; linear.md 9]
//
// Neither takes a power for each value. The numbers of E4M3, and those halfway between them, are
// (1 + i/16) · 2^e, and a power of such a product is the product of two powers: 16 and two of a
// block make all that its codes stand for, and what lies halfway, in x. Logarithms and exponentials
// are our own in FP64, so that bits are the same on every machine.
#pragma once

#include <array>
#include <cstdint>

#include "math/round.h"

namespace ng {

/// What a block stores beside its codes.
struct Expansion {
  float scale = 1, power = 1, center = 1;
};

/// Of a block: the largest |x|, and the smallest that is not zero (0: there is none). 1e-30 is
/// added to both; the power is a multiple of 1/16, and 1 where they are equal.
[[nodiscard]] Expansion expansion_of(float most, float least);

/// What the codes of a block stand for.
class ExpandedValues {
 public:
  explicit ExpandedValues(const Expansion& expansion);
  [[nodiscard]] float value(uint8_t code) const {
    const float a = values_[code & 0x7F];
    return (code & 0x80) != 0 ? -a : a;
  }

 private:
  std::array<float, 128> values_;
};

/// What lies between the codes of a block.
class ExpandedLimits {
 public:
  explicit ExpandedLimits(const Expansion& expansion);
  /// Of the nearest number in y, the lower one of two: how many limits are below |x|, which is at
  /// most the largest of the block. Of NaN the code of NaN.
  [[nodiscard]] uint8_t code(float x) const {
    const uint32_t bits = float_bits(x);
    const auto magnitude = static_cast<int32_t>(bits & 0x7FFFFFFFu);
    uint32_t below = 0;  // by signs of differences: a branch here costs ten times as much
    for (uint32_t step = 64; step > 0; step /= 2)
      below += step & static_cast<uint32_t>((limits_[below + step - 1] - magnitude) >> 31);
    return static_cast<uint8_t>(below | (bits >> 31 << 7));
  }

 private:
  /// Bits of the largest FP32 numbers that are not above, which are ordered like them; infinite
  /// behind the last.
  std::array<int32_t, 128> limits_;
};

}  // namespace ng
