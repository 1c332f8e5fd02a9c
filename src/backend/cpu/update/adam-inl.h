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

/// Numbers of a step spread over the lanes.
struct StepRules {
  F16 beta1, rest1, beta2, rest2, correction1, correction2, lr, eps, keep, decay, grad_scale;
};

HWY_INLINE StepRules RulesOf(const OptimizerNumbers& n, float grad_scale) {
  return {.beta1 = Set16(n.beta1),
          .rest1 = Set16(1.0f - n.beta1),
          .beta2 = Set16(n.beta2),
          .rest2 = Set16(1.0f - n.beta2),
          .correction1 = Set16(n.correction1),
          .correction2 = Set16(n.correction2),
          .lr = Set16(n.lr),
          .eps = Set16(n.eps),
          .keep = Set16(1.0f - n.lr * n.weight_decay),
          .decay = Set16(n.weight_decay),
          .grad_scale = Set16(grad_scale)};
}

/// sqrt(v̂) + ε
HWY_INLINE F16 RootOf(const StepRules& k, F16 v) { return Add(Sqrt(Div(v, k.correction2)), k.eps); }

/// New moments, and what the weight moves by: m̂ / root.
struct AdamMoments {
  F16 m, v, m_hat, root;
};
HWY_INLINE AdamMoments MoveMoments(const StepRules& k, F16 m, F16 v, F16 grad) {
  const F16 g = Mul(grad, k.grad_scale);
  const F16 m1 = Add(Mul(k.beta1, m), Mul(k.rest1, g));
  const F16 v1 = Add(Mul(k.beta2, v), Mul(k.rest2, Mul(g, g)));
  return {m1, v1, Div(m1, k.correction1), RootOf(k, v1)};
}

/// -m̂/root - λ·w
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
