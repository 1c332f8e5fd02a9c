// e^x on sixteen doubles: the same bits as the scalar one of math/exp.h, which states its error.
// Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_EXP64_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_EXP64_INL_H_
#undef NG_BACKEND_CPU_SIMD_EXP64_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_EXP64_INL_H_
#endif

#include "backend/cpu/simd/lanes-inl.h"
#include "math/exp.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// 2^(whole >> 1) and 2^(whole - (whole >> 1)).
struct PowersOfTwo {
  D16 first, second;
};
HWY_INLINE PowersOfTwo SplitPower(const Lanes16<int64_t>& whole) {
  const auto half = ShiftRight<1>(whole), bias = Set16(int64_t{1023});
  const auto power = [&](const Lanes16<int64_t>& e) HWY_ATTR {
    const auto bits = ShiftLeft<52>(Add(e, bias));
    return Bits<double>(bits);
  };
  return {power(half), power(Sub(whole, half))};
}

/// e^x; equals math::exp(double).
HWY_INLINE D16 Exp(D16 argument) {
  using namespace math::exp64;
  constexpr std::array kTerms = polynomial();
  // A little beyond the bounds the formula gives infinity and 0 by itself.
  const D16 x = Max(Min(argument, Set16(kHighest + 1)), Set16(kLowest - 1));
  const D16 rounder = Set16(kRounder);
  const D16 shifted = Add(Mul(x, Set16(kLog2e)), rounder);
  const D16 n = Sub(shifted, rounder);
  const D16 r = Sub(Sub(x, Mul(n, Set16(kLn2High))), Mul(n, Set16(kLn2Low)));
  D16 q = Set16(kTerms[10]);
  for (int i = 9; i >= 0; --i) q = Add(Mul(q, r), Set16(kTerms[static_cast<size_t>(i)]));
  const D16 y = Add(Add(Mul(Mul(r, r), q), r), Set16(1.0));
  const auto power = SplitPower(Sub(Bits<int64_t>(shifted), Bits<int64_t>(rounder)));
  return Select(Eq(argument, argument), Mul(Mul(y, power.first), power.second), argument);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
