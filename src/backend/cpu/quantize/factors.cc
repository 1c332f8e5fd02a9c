// Factors by which roundings pass gradients on, sixteen at once. [linear.md 6]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/factors.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/element-inl.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/simd/elementary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// Of magnitudes; equals factor_at.
HWY_INLINE F16 ClipFactor(const GradientFactor& by, F16 a) {
  return Select(Lt(a, Set16(by.max)), Set16(1.0f), Zero16());
}

HWY_INLINE F16 SlopeFactor(const GradientFactor& by, F16 a) {
  const I16 exponent = And(Bits<int32_t>(a), SetBits(float_of_bits(kFloatInf)));
  const F16 binade = Bits<float>(Max(exponent, SetBits(by.lowest_binade)));
  const M16 is_below = Lt(a, Set16(by.last));
  const F16 inner = Mul(binade, Set16(by.spacing));
  const F16 below = Select(is_below, a, Zero16());
  const F16 lo = Select(is_below, Mul(ToFloat(Truncate(Div(below, inner))), inner), Set16(by.last));
  const F16 gap = Select(is_below, inner, Set16(by.last_gap));
  const F16 t = Abs(Sub(Div(Sub(a, lo), Mul(Set16(0.5f), gap)), Set16(1.0f)));
  const F16 slope = Div(Exp(Mul(Set16(by.exponent), Log(t))), Set16(by.k));
  const F16 limit = Set16(by.limit);
  const F16 limited = Select(Lt(slope, limit), slope, limit);
  return Select(Gt(t, Zero16()), limited, limit);
}

void MultiplyByFactors(const GradientFactor& by, const FactorRun& run) {
  const F16 prescale = Set16(run.prescale), multiplier = Set16(run.multiplier);
  for (int64_t i = 0; i < run.count; i += kLanes) {
    const int64_t left = run.count - i;
    const F16 value = run.values.is_bf16() ? Load16(run.values.bf16() + i, left)
                                           : Load16(run.values.fp32() + i, left);
    const F16 scaled = Mul(value, prescale);
    const F16 a = Abs(run.divides ? Div(scaled, multiplier) : Mul(scaled, multiplier));
    const F16 factor = by.kind == RoundingGradient::clip ? ClipFactor(by, a) : SlopeFactor(by, a);
    Store16(Mul(Load16(run.x + i, left), factor), run.to + i, left);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(MultiplyByFactors);

void multiply_by_factors(const GradientFactor& by, const FactorRun& run) {
  HWY_DYNAMIC_DISPATCH(MultiplyByFactors)(by, run);
}

}  // namespace ng::cpu
#endif
