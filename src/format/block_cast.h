// Values that share a power of two, rounded one by one.
#pragma once

#include "format/codec.h"
#include "format/scale.h"

namespace ng {

/// Rounds values of which the largest magnitude is `amax` to an element, scaled by the power of two
/// that lets none of them saturate ("rceil"). An element that reaches as far as FP32 has no scale.
class BlockCast {
 public:
  BlockCast(const ElementFormat& element, float amax) : codec_(element) {
    constexpr int kBitsOfFp32Exponent = 8;
    if (element.exponent_bits == kBitsOfFp32Exponent || !(amax > 0)) return;
    const uint32_t code = e8m0_code(e8m0_exponent(ScaleRule::rceil, amax, range_of(element)));
    scale_ = e8m0_value(code);
    multiplier_ = e8m0_multiplier(code);
  }
  [[nodiscard]] float operator()(float x) const {
    return codec_.decode(codec_.encode(x * multiplier_)) * scale_;
  }

 private:
  ElementCodec codec_;
  float scale_ = 1, multiplier_ = 1;
};

}  // namespace ng
