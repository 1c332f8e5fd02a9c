// Elementary functions on sixteen lanes: the same bits as the scalar ones of math/exp.h and
// math/erf.h, which state the errors. Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_ELEMENTARY_INL_H_
#undef NG_BACKEND_CPU_SIMD_ELEMENTARY_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_ELEMENTARY_INL_H_
#endif

#include "backend/cpu/simd/lanes-inl.h"
#include "math/erf.h"
#include "math/exp.h"
#include "math/log.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// Horner's rule with one rounding per step.
template <size_t kCount>
HWY_INLINE F16 Polynomial(const std::array<float, kCount>& coefficients, F16 x) {
  F16 p = Set16(coefficients[kCount - 1]);
  for (int i = static_cast<int>(kCount) - 2; i >= 0; --i) p = Fma(p, x, Set16(coefficients[i]));
  return p;
}

// y · 2^n, rounded once, of n that kRounder was added to: in two factors, so that neither overflows
// and only the last product rounds, as math::exp says it.
HWY_INLINE F16 TimesPow2(F16 y, F16 n, F16 shifted) {
#if HWY_TARGET == HWY_AVX3
  (void)shifted;
  return ForParts<F16>([&](size_t p) HWY_ATTR {
    return hn::Vec<F16::Tag>{_mm512_scalef_ps(y.part[p].raw, n.part[p].raw)};
  });
#else
  (void)n;
  const I16 whole = Sub(Bits<int32_t>(shifted), Bits<int32_t>(Set16(math::exp32::kRounder)));
  const I16 half = ShiftRight<1>(whole);
  const F16 first = Bits<float>(ShiftLeft<23>(Add(half, Set16(127))));
  const F16 second = Bits<float>(ShiftLeft<23>(Add(Sub(whole, half), Set16(127))));
  return Mul(Mul(y, first), second);
#endif
}

/// e^x; equals math::exp(float).
HWY_INLINE F16 Exp(F16 x) {
  using namespace math::exp32;
  const F16 c = Min(Set16(kHighest), Max(Set16(kLowest), x));
  const F16 shifted = Fma(c, Set16(kLog2e), Set16(kRounder));
  const F16 n = Sub(shifted, Set16(kRounder));
  const F16 r = Fma(n, Set16(-kLn2Low), Fma(n, Set16(-kLn2High), c));
  const F16 q = Polynomial(polynomial(), r);
  const F16 y = Add(Fma(Mul(r, r), q, r), Set16(1.0f));
  return TimesPow2(y, n, shifted);
}

/// ln(x) of normal numbers above 0; equals math::log(float).
HWY_INLINE F16 Log(F16 x) {
  using namespace math::log32;
  const I16 bits = Bits<int32_t>(x);
  const I16 up = ShiftRight<23>(Sub(bits, Bits<int32_t>(Set16(kSqrtHalf))));
  const F16 f = Sub(Bits<float>(Sub(bits, ShiftLeft<23>(up))), Set16(1.0f));
  const F16 e = ToFloat(up);
  const F16 q = Polynomial(polynomial(), f);
  const F16 square = Mul(f, f);
  const F16 rest = Fma(e, Set16(kLn2Low), Fma(Mul(square, f), q, Mul(Set16(-0.5f), square)));
  return Fma(e, Set16(kLn2High), Add(f, rest));
}

struct Cdf16 {
  F16 cdf;
  F16 density;
};

/// Φ(x) and φ(x); equals math::normal_cdf.
HWY_INLINE Cdf16 NormalCdf(F16 x) {
  using namespace math::cdf32;
  const F16 one = Set16(1.0f);
  const F16 a = Min(Set16(kFarthest), Abs(x));
  const F16 square = Mul(a, a);
  const F16 lost = Fma(a, a, Neg(square));
  F16 e = Exp(Mul(Set16(-0.5f), square));
  e = Fma(e, Mul(Set16(-0.5f), lost), e);
  const F16 near = Add(a, one);
  const F16 far = Add(a, Set16(4.0f));
  const F16 reciprocal = Div(one, Mul(near, far));
  const F16 t = Mul(Mul(Sub(a, Set16(4.0f)), near), reciprocal);
  const F16 tail = Mul(Mul(Polynomial(polynomial(), t), Mul(far, reciprocal)), e);
  return {Select(Lt(x, Zero16()), tail, Sub(one, tail)), Mul(e, Set16(kDensity0))};
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
