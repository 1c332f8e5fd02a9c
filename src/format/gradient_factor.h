// By how much the rounding of a forward operand passes a gradient on. [linear.md 6]
#pragma once

#include <cmath>

#include "base/host_device.h"
#include "format/operand.h"
#include "format/scale.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng {

/// Of a cast whose `gradient` is clip or dge. Elements are the multiples of spacing · 2^e within
/// each binade from `lowest_binade` on, 0 below; above `last`, the largest but one, there is
/// one gap more.
struct GradientFactor {
  RoundingGradient kind = RoundingGradient::clip;
  float max = 0;
  float last = 0;
  float last_gap = 1;
  float lowest_binade = 1;  ///< a power of two
  float spacing = 1;        ///< 2^-mantissa_bits
  float exponent = 0;       ///< 1/dge_k - 1
  float k = 1, limit = 1;   ///< dge_k, dge_max
};

[[nodiscard]] inline GradientFactor gradient_factor_of(const Operand& cast) {
  const ElementFormat& element = *cast.element;
  const ElementRange range = range_of(element);
  const bool integer = element.kind == ElementKind::integer;
  const int bits = integer ? element.bits - 2 : element.mantissa_bits;
  GradientFactor factor{.kind = cast.gradient, .max = range.max};
  factor.last_gap = pow2(range.emax - bits);
  factor.last = range.max - factor.last_gap;
  factor.lowest_binade = integer ? pow2(range.emax) : pow2(1 - element.bias);
  factor.spacing = pow2(-bits);
  factor.k = cast.dge_k;
  factor.exponent = 1.0f / cast.dge_k - 1.0f;
  factor.limit = cast.dge_max;
  return factor;
}

/// What the gradient of a value that was rounded as u is multiplied by. dge is infinitely steep
/// in the middle of two elements: `limit` there, and of NaN.
[[nodiscard]] NG_HD inline float factor_at(const GradientFactor& by, float u) {
  const float a = std::fabs(u);
  if (by.kind == RoundingGradient::clip) return a < by.max ? 1.0f : 0.0f;
  float lo = by.last, gap = by.last_gap;
  if (a < by.last) {
    const float binade = a < by.lowest_binade ? by.lowest_binade : pow2(floor_log2(a));
    gap = binade * by.spacing;
    lo = std::trunc(a / gap) * gap;
  }
  const float t = std::fabs((a - lo) / (0.5f * gap) - 1.0f);
  if (!(t > 0)) return by.limit;
  const float slope = math::exp(by.exponent * math::log(t)) / by.k;
  return slope < by.limit ? slope : by.limit;
}

}  // namespace ng
