// How a new value becomes that of a weight. [recipes.md §5]
#pragma once

#include "backend/operations.h"

namespace ng::cuda {

enum class UpdateWay : uint8_t {
  direct,    ///< in FP32, or through a master
  rounded,   ///< w + lr·u, or w + alpha·u of precision_aware, to nearest or stochastically
  feedback,  ///< as direct, rounded; the error goes into the first moment
  kahan,     ///< with what the sum lacks
  residual,  ///< with the residual in units of an ulp
};

[[nodiscard]] inline bool goes_direct(const UpdatedWeight& weight) {
  return weight.master || weight.value.cast.is_fp32();
}

[[nodiscard]] inline UpdateWay way_of(const UpdatedWeight& weight) {
  if (goes_direct(weight)) return UpdateWay::direct;
  if (weight.momentum_feedback) return UpdateWay::feedback;
  if (weight.rule == UpdateRule::kahan) return UpdateWay::kahan;
  return weight.rule == UpdateRule::residual ? UpdateWay::residual : UpdateWay::rounded;
}

/// The value with the rounding into it.
[[nodiscard]] inline Stored rounded_value(const UpdatedWeight& weight) {
  const bool draws = !goes_direct(weight) && weight.rule == UpdateRule::stochastic;
  return weight.value.rounded_by(draws ? Rounding::stochastic : Rounding::nearest);
}

/// f.operator()<way>()
template <class F>
void with_way(UpdateWay way, const F& f) {
  switch (way) {
    case UpdateWay::direct:
      return f.template operator()<UpdateWay::direct>();
    case UpdateWay::rounded:
      return f.template operator()<UpdateWay::rounded>();
    case UpdateWay::feedback:
      return f.template operator()<UpdateWay::feedback>();
    case UpdateWay::kahan:
      return f.template operator()<UpdateWay::kahan>();
    case UpdateWay::residual:
      return f.template operator()<UpdateWay::residual>();
  }
}

}  // namespace ng::cuda
