// The second element of a list, an integer whose largest number stands for the first's largest: the
// bits are those of OtherElement. [format/element_list.h]
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_QUANTIZE_LIST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_QUANTIZE_LIST_INL_H_
#undef NG_BACKEND_CPU_QUANTIZE_LIST_INL_H_
#else
#define NG_BACKEND_CPU_QUANTIZE_LIST_INL_H_
#endif

#include "backend/cpu/quantize/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

struct OtherRules {
  Rules integers;
  F16 to, back;
};

HWY_INLINE OtherRules OtherRulesOf(const OtherGrid& other) {
  return {RulesOf(other.grid, {.values = {}}), Set16(other.to), Set16(other.back)};
}

// Zeros are +0 here; stochastic rounding goes toward minus infinity.
template <bool kStochastic>
constexpr Variant kOtherVariant = {.kind = kStochastic ? Kind::integer : Kind::small,
                                   .stochastic = kStochastic,
                                   .signed_zero = false,
                                   .form = ElementForm::fp32};

// Elements of y, values over their scales: negated, as the block's scale is.
template <bool kStochastic>
HWY_INLINE F16 RoundOther(const OtherRules& k, F16 y, U16 draw) {
  const F16 n = RoundElement<kOtherVariant<kStochastic>>(k.integers, Mul(y, k.to), draw);
  return Neg(Mul(n, k.back));
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
