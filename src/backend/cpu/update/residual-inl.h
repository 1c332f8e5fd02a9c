// Residuals on sixteen lanes: integers in units of an element's ulp over 2^bits. [errata-2, 21]
// Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_UPDATE_RESIDUAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_UPDATE_RESIDUAL_INL_H_
#undef NG_BACKEND_CPU_UPDATE_RESIDUAL_INL_H_
#else
#define NG_BACKEND_CPU_UPDATE_RESIDUAL_INL_H_
#endif

#include "backend/cpu/quantize/element-inl.h"
#include "backend/cpu/update/elements.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// Rules spread over the lanes.
struct ResidualLanes {
  I16 lowest_binade;
  F16 per_binade;  // an ulp is the binade times this
  F16 scale, inverse, part, units, limit, max;
  I16 half;
  I16 per_ulp, least_ulp;  // per_ulp - bits(ulp) = 2^(bits + 16) / ulp, from least_ulp on
};

HWY_INLINE ResidualLanes LanesOf(const ResidualRules& rules) {
  return {.lowest_binade = Set16(static_cast<int32_t>(float_bits(rules.lowest_binade))),
          .per_binade = Set16(pow2(-rules.mantissa_bits)),
          .scale = Set16(rules.scale),
          .inverse = Set16(1.0f / rules.scale),
          .part = Set16(pow2(-rules.bits - rules.mantissa_bits)),
          .units = Set16(pow2(rules.bits)),
          .limit = Set16(pow2(rules.bits + 15)),  // of units in 2^-16
          .max = Set16(rules.max),
          .half = Set16(1 << (rules.bits - 1)),
          .per_ulp = Set16(static_cast<int32_t>((254u + rules.bits + 16) << 23)),
          .least_ulp = Set16((rules.bits + 16) << 23)};
}

HWY_INLINE F16 BinadeOf(const ResidualLanes& k, F16 element) {
  const I16 exponent = And(Bits<int32_t>(element), Set16(0x7F800000));
  return Bits<float>(Max(exponent, k.lowest_binade));
}
/// The spacing of an element's binade.
HWY_INLINE F16 UlpOf(const ResidualLanes& k, F16 element) {
  return Mul(BinadeOf(k, element), k.per_binade);
}

/// w + c, exact: an element and its residual have at most 19 bits together. Here and below the
/// rules' scale is 1 where they are not `kScaled`.
template <bool kScaled>
HWY_INLINE F16 WithResidual(const ResidualLanes& k, F16 w, I16 c) {
  const F16 element = kScaled ? Mul(w, k.inverse) : w;
  const F16 sum = Add(element, Mul(ToFloat(c), Mul(BinadeOf(k, element), k.part)));
  return kScaled ? Mul(sum, k.scale) : sum;
}

/// c = floor((x - w')/unit + R·2^-16); 2^(bits-1) moves the element on.
struct ResidualPair {
  F16 element;
  I16 c;
};
template <bool kScaled>
HWY_INLINE ResidualPair CarryOf(const ResidualLanes& k, F16 x, F16 element, I16 draw) {
  const F16 ulp = UlpOf(k, element);
  const F16 rest = Sub(kScaled ? Mul(x, k.inverse) : x, element);
  // floor(t + R·2^-16) = (floor(t·2^16) + R) >> 16; powers of two divide by their exponents.
  F16 t = Mul(rest, Bits<float>(Sub(k.per_ulp, Bits<int32_t>(ulp))));
  if (HWY_UNLIKELY(AnyTrue(Lt(Bits<int32_t>(ulp), k.least_ulp))))
    t = Mul(Mul(Div(rest, ulp), k.units), Set16(0x1p16f));
  const I16 scaled = Truncate(Floor(Max(Min(t, k.limit), Neg(k.limit))));
  const I16 q = Min(ShiftRight<16>(Add(scaled, draw)), k.half);
  ResidualPair pair = {element, q};
  const auto is_carried = Eq(q, k.half);
  if (HWY_LIKELY(!AnyTrue(is_carried))) return pair;
  const auto is_largest = Eq(Abs(element), k.max);
  const F16 next = Add(element, ulp);
  const auto grows = Gt(UlpOf(k, next), ulp);
  const I16 least = Sub(Zero16<int32_t>(), k.half);
  const I16 carried = Select(MaskAs<int32_t>(grows), ShiftRight<1>(least), least);
  const I16 moved = Select(MaskAs<int32_t>(is_largest), Sub(k.half, Set16(1)), carried);
  const F16 kept = Select(is_largest, element, next);
  pair.element = Select(MaskAs<float>(is_carried), kept, element);
  pair.c = Select(is_carried, moved, q);
  return pair;
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
