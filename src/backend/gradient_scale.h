// Rules of gradients in few bits that every backend shares, some on cards too.
// [update_operations.h]
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/update_operations.h"
#include "format/codec.h"
#include "format/scale.h"

namespace ng {

/// Whether a cast has one scale that mu can be in.
[[nodiscard]] inline bool has_one_float_scale(const Operand& cast) {
  return cast.block.kind == Block::Kind::tensor && cast.tensor_scale == ScaleKind::none &&
         (cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2) &&
         cast.element->kind == ElementKind::floating;
}

/// fl(mu·s), s at most 2^100. [errata-2, 28]
[[nodiscard]] NG_HD inline float wire_encode_scale(float encode_scale, const AutoScale* scale) {
  return std::min(encode_scale, pow2(100)) * (scale != nullptr ? scale->mu : 1.0f);
}

/// S, what a gradient is multiplied by whose largest magnitude, over all ranks, is `amax`. Of casts
/// that have one such scale. NaN where amax is not finite. [errata-2, 27, 28]
[[nodiscard]] inline float shared_encode_scale(const Operand& cast, float amax,
                                               const AutoScale* scale) {
  if (!std::isfinite(amax)) return float_of_bits(0x7FC00000u);
  const float max = range_of(*cast.element).max;
  return wire_encode_scale(encode_scale_of(amax, max, cast.scale == ScaleKind::pow2), scale);
}

/// Makes the first value of a tensor NaN, by its scale where it has one.
inline void poison(const View& y) {
  const float nan = float_of_bits(0x7FC00000u);
  if (y.scales.tensor != nullptr) {
    *y.scales.tensor = nan;
    return;
  }
  const ElementFormat& element = y.has_scales() ? *y.scales.element : *y.element;
  const uint32_t code = element.bits == 32
                            ? float_bits(nan)
                            : ElementCodec(element).encode(nan, {}, OverflowRule::special);
  // Little endian, as everything here.
  std::memcpy(y.has_scales() ? y.scales.data : y.data, &code,
              static_cast<size_t>(element.bits) / 8);
}

/// mu = 2^(k / window).
[[nodiscard]] NG_HD inline AutoScale auto_scale_of(double k, int64_t window) {
  return {.mu = static_cast<float>(std::exp2(k / static_cast<double>(window))),
          .k = static_cast<float>(k)};
}

/// Whether this good step raises k.
[[nodiscard]] NG_HD inline bool grows_after_good_step(const MoveAutoScale& op) {
  if (op.good_steps == nullptr) return true;
  const auto enough = static_cast<float>(op.growth_after);
  *op.good_steps = std::min(*op.good_steps + 1, enough);
  return *op.good_steps == enough;
}

/// k and mu after a step of which `saturated` of `values` codes were the largest.
NG_HD inline void move_auto_scale(const MoveAutoScale& op, int64_t saturated, int64_t values) {
  const auto window = static_cast<double>(op.window);
  const double share = static_cast<double>(saturated) / static_cast<double>(values);
  double k = op.scale->k;
  if (share > op.threshold) {
    k -= window;
    if (op.good_steps != nullptr) *op.good_steps = 0;
  } else if (grows_after_good_step(op)) {
    k += 1.0;
  }
  *op.scale =
      auto_scale_of(static_cast<float>(std::clamp(k, -24 * window, 24 * window)), op.window);
}

}  // namespace ng
