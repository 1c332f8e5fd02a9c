// AdamW's arithmetic on sixteen lanes, every operation rounded once in the order of the definition.
// [backend/update_operations.h] Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_UPDATE_ADAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_UPDATE_ADAM_INL_H_
#undef NG_BACKEND_CPU_UPDATE_ADAM_INL_H_
#else
#define NG_BACKEND_CPU_UPDATE_ADAM_INL_H_
#endif

#include "backend/cpu/simd/lanes-inl.h"
#include "backend/update_operations.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// A number that many are divided by.
struct Divisor {
  F16 value, inverse;
  I16 least, most;  // bits of |x| for which Quotient needs no division
};

HWY_INLINE Divisor DivisorOf(float value) {
  const bool is_usual = value >= 0x1p-30f && value <= 0x1p30f;
  return {.value = Set16(value),
          .inverse = Set16(1.0f / value),
          .least = Set16(is_usual ? 0x1F800000 : 0x7FFFFFFF),  // 2^-64
          .most = Set16(0x5F800000)};                          // 2^64
}

HWY_INLINE bool IsUsual(const Divisor& c, F16 x) {
  const I16 bits = Bits<int32_t>(Abs(x));
  return !AnyTrue(Lt(bits, c.least)) && !AnyTrue(Gt(bits, c.most));
}

/// x / c, correctly rounded, of usual x: one product and two FMAs, where a division takes as long
/// as ten. [Markstein 1990; Brisebarre, Muller and Raina 2004]
HWY_INLINE F16 Quotient(F16 x, const Divisor& c) {
  const F16 q = Mul(x, c.inverse);
  return Fma(Fma(Neg(q), c.value, x), c.inverse, q);
}

/// Numbers of a step spread over the lanes.
struct StepRules {
  F16 beta1, rest1, beta2, rest2, lr, eps, keep, decay, grad_scale;
  Divisor correction1, correction2;
};

HWY_INLINE StepRules RulesOf(const OptimizerNumbers& n, float grad_scale) {
  return {.beta1 = Set16(n.beta1),
          .rest1 = Set16(1.0f - n.beta1),
          .beta2 = Set16(n.beta2),
          .rest2 = Set16(1.0f - n.beta2),
          .lr = Set16(n.lr),
          .eps = Set16(n.eps),
          .keep = Set16(1.0f - n.lr * n.weight_decay),
          .decay = Set16(n.weight_decay),
          .grad_scale = Set16(grad_scale),
          .correction1 = DivisorOf(n.correction1),
          .correction2 = DivisorOf(n.correction2)};
}

/// sqrt(v̂) + ε
HWY_INLINE F16 RootOf(const StepRules& k, F16 v) {
  return Add(Sqrt(Div(v, k.correction2.value)), k.eps);
}

/// New moments, and what the weight moves by: m̂ / root.
struct AdamMoments {
  F16 m, v, m_hat, root;
};

/// The moments alone.
struct MomentPair {
  F16 m, v;
};
HWY_INLINE MomentPair NewMoments(const StepRules& k, F16 m, F16 v, F16 grad) {
  const F16 g = Mul(grad, k.grad_scale);
  return {Add(Mul(k.beta1, m), Mul(k.rest1, g)), Add(Mul(k.beta2, v), Mul(k.rest2, Mul(g, g)))};
}

HWY_INLINE AdamMoments MoveMoments(const StepRules& k, F16 m, F16 v, F16 grad) {
  const MomentPair a = NewMoments(k, m, v, grad);
#if HWY_TARGET != HWY_SCALAR
  if (HWY_LIKELY(IsUsual(k.correction1, a.m) && IsUsual(k.correction2, a.v))) {
    const F16 v_hat = Quotient(a.v, k.correction2);
    return {a.m, a.v, Quotient(a.m, k.correction1), Add(Sqrt(v_hat), k.eps)};
  }
#endif
  return {a.m, a.v, Div(a.m, k.correction1.value), RootOf(k, a.v)};
}

/// u = -m̂ / root - λ·w
HWY_INLINE F16 Direction(const StepRules& k, F16 w, const AdamMoments& a) {
  return Sub(Div(Neg(a.m_hat), a.root), Mul(k.decay, w));
}

/// w·(1 - lr·λ) - (lr·m̂) / root
HWY_INLINE F16 NewWeight(const StepRules& k, F16 w, const AdamMoments& a) {
  return Sub(Mul(w, k.keep), Div(Mul(k.lr, a.m_hat), a.root));
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
