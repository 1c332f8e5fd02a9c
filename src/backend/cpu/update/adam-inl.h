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
};
HWY_INLINE Divisor DivisorOf(float value) { return {Set16(value), Set16(1.0f / value)}; }

/// x / c by one product and two FMAs, where a division takes as long as ten: correctly rounded
/// while nothing comes near FP32's limits. [Markstein 1990; Brisebarre, Muller and Raina 2004]
HWY_INLINE F16 Quotient(F16 x, const Divisor& c) {
  const F16 q = Mul(x, c.inverse);
  const F16 rest = ForParts<F16>(
      [&](size_t p) HWY_ATTR { return hn::NegMulAdd(q.part[p], c.value.part[p], x.part[p]); });
  return Fma(rest, c.inverse, q);
}

/// |x| from 2^-64 to 2^64 are far from those limits: as integers that begin with the bits of the
/// former they are at most kUsual.
constexpr int32_t kUsual = -0x40000000;
HWY_INLINE I16 FromUsual(F16 x) {
  constexpr int32_t kLeast = 0x1F800000;
  return Sub(Bits<int32_t>(x), Set16(INT32_MIN + kLeast));
}
HWY_INLINE bool IsUsualDivisor(float c) { return c >= 0x1p-30f && c <= 0x1p30f; }

/// Numbers of a step spread over the lanes.
struct StepRules {
  F16 beta1, rest1, beta2, rest2, lr, eps, keep, decay, grad_scale;
  Divisor minus1, correction2;  // -correction1
  bool has_quotients;
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
          .minus1 = DivisorOf(-n.correction1),
          .correction2 = DivisorOf(n.correction2),
          .has_quotients = IsUsualDivisor(n.correction1) && IsUsualDivisor(n.correction2)};
}

/// sqrt(v̂) + ε
HWY_INLINE F16 RootOf(const StepRules& k, F16 v) {
  return Add(Sqrt(Div(v, k.correction2.value)), k.eps);
}

/// New moments.
struct AdamMoments {
  F16 m, v;
};
HWY_INLINE AdamMoments MoveMoments(const StepRules& k, F16 m, F16 v, F16 grad) {
  const F16 g = Mul(grad, k.grad_scale);
  return {Add(Mul(k.beta1, m), Mul(k.rest1, g)), Add(Mul(k.beta2, v), Mul(k.rest2, Mul(g, g)))};
}

HWY_INLINE bool AreUsual(const AdamMoments& a) {
  return !AnyTrue(Gt(Max(FromUsual(Abs(a.m)), FromUsual(a.v)), Set16(kUsual)));
}

/// -m̂ and sqrt(v̂) + ε
struct AdamStep {
  F16 minus_m, root;
};
HWY_INLINE AdamStep StepOf(const StepRules& k, const AdamMoments& a) {
#if HWY_TARGET == HWY_SCALAR
  return {Div(a.m, k.minus1.value), RootOf(k, a.v)};
#else
  F16 minus_m = Quotient(a.m, k.minus1), v_hat = Quotient(a.v, k.correction2);
  if (HWY_UNLIKELY(!k.has_quotients || !AreUsual(a))) {
    minus_m = Div(a.m, k.minus1.value);
    v_hat = Div(a.v, k.correction2.value);
  }
  return {minus_m, Add(Sqrt(v_hat), k.eps)};
#endif
}

/// u = -m̂ / root - λ·w
HWY_INLINE F16 Direction(const StepRules& k, F16 w, const AdamStep& step) {
  return Sub(Div(step.minus_m, step.root), Mul(k.decay, w));
}
HWY_INLINE F16 Direction(const StepRules& k, F16 w, const AdamMoments& a) {
  return Direction(k, w, StepOf(k, a));
}

/// w·(1 - lr·λ) - (lr·m̂) / root
HWY_INLINE F16 NewWeight(const StepRules& k, F16 w, const AdamStep& step) {
  return Add(Mul(w, k.keep), Div(Mul(k.lr, step.minus_m), step.root));
}
HWY_INLINE F16 NewWeight(const StepRules& k, F16 w, const AdamMoments& a) {
  return NewWeight(k, w, StepOf(k, a));
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
