#include "backend/cpu/update/elements.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/elements.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/update/adam-inl.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

void AdamStretch(const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  const StepRules k = RulesOf(numbers, s.grad_scale);
  ForLanes(s.count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 w = Load16(s.w + i, left);
    const AdamMoments a =
        MoveMoments(k, Load16(s.m + i, left), Load16(s.v + i, left), Load16(s.g + i, left));
    Store16(a.m, s.new_m + i, left);
    Store16(a.v, s.new_v + i, left);
    if (s.x != nullptr) Store16(NewWeight(k, w, a), s.x + i, left);
    if (s.u != nullptr) Store16(Direction(k, w, a), s.u + i, left);
  });
}

// The second moment is one for all of the stretch, and has moved.
void AdamMiniStretch(const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  const StepRules k = RulesOf(numbers, s.grad_scale);
  const F16 v = Set16(s.v[0]), root = RootOf(k, v);
  ForLanes(s.count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 w = Load16(s.w + i, left), g = Mul(Load16(s.g + i, left), k.grad_scale);
    const F16 m = Add(Mul(k.beta1, Load16(s.m + i, left)), Mul(k.rest1, g));
    const AdamMoments a{m, v, Div(m, k.correction1), root};
    Store16(m, s.new_m + i, left);
    Store16(v, s.new_v + i, left);
    if (s.x != nullptr) Store16(NewWeight(k, w, a), s.x + i, left);
    if (s.u != nullptr) Store16(Direction(k, w, a), s.u + i, left);
  });
}

void SgdStretch(const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  const StepRules k = RulesOf(numbers, s.grad_scale);
  ForLanes(s.count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 g = Mul(Load16(s.g + i, left), k.grad_scale);
    const F16 m = Add(Mul(k.beta1, Load16(s.m + i, left)), g);
    const F16 w = Load16(s.w + i, left);
    Store16(m, s.new_m + i, left);
    if (s.x != nullptr) Store16(Sub(Mul(w, k.keep), Mul(k.lr, m)), s.x + i, left);
    if (s.u != nullptr) Store16(Sub(Neg(m), Mul(k.decay, w)), s.u + i, left);
  });
}

void MuonStretch(const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  const StepRules k = RulesOf(numbers, 1);
  ForLanes(s.count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 w = Load16(s.w + i, left), step = Load16(s.g + i, left);
    if (s.x != nullptr) Store16(Sub(Mul(w, k.keep), Mul(k.lr, step)), s.x + i, left);
    if (s.u != nullptr) Store16(Sub(Neg(step), Mul(k.decay, w)), s.u + i, left);
  });
}

void DirectionStretch(const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  const StepRules k = RulesOf(numbers, s.grad_scale);
  ForLanes(s.count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 u = Mul(Load16(s.g + i, left), k.grad_scale);
    if (s.x != nullptr) Store16(Add(Load16(s.w + i, left), Mul(k.lr, u)), s.x + i, left);
    if (s.u != nullptr) Store16(u, s.u + i, left);
  });
}

void AddScaled(const float* w, const float* u, float lr, int64_t count, float* x) {
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 step = Mul(Set16(lr), Load16(u + i, left));
    Store16(Add(Load16(w + i, left), step), x + i, left);
  });
}

void KahanSum(const float* w, const float* u, const Bf16* c, float lr, int64_t count, float* y,
              float* x) {
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 step = Sub(Mul(Set16(lr), Load16(u + i, left)), Load16(c + i, left));
    Store16(step, y + i, left);
    Store16(Add(Load16(w + i, left), step), x + i, left);
  });
}

void KahanCarry(const float* w, const float* t, const float* y, int64_t count, Bf16* c) {
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 moved = Sub(Load16(t + i, left), Load16(w + i, left));
    Store16(Sub(moved, Load16(y + i, left)), c + i, left);
  });
}

void FeedBack(const OptimizerNumbers& numbers, const float* x, const float* t, const float* v,
              int64_t count, float* m) {
  const StepRules k = RulesOf(numbers, 1);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 error = Sub(Load16(x + i, left), Load16(t + i, left));
    const F16 rate = Div(k.lr, Mul(k.correction1, RootOf(k, Load16(v + i, left))));
    const F16 fed = Div(Mul(error, k.rest1), Mul(k.beta1, rate));
    Store16(Sub(Load16(m + i, left), fed), m + i, left);
  });
}

// ---------------------------------------------------------------- residuals

// The spacing of an element's binade.
HWY_INLINE F16 UlpOf(const ResidualRules& rules, F16 element) {
  const I16 exponent = And(Bits<int32_t>(element), Set16(0x7F800000));
  const I16 lowest = Set16(static_cast<int32_t>(float_bits(rules.lowest_binade)));
  return Mul(Bits<float>(Max(exponent, lowest)), Set16(pow2(-rules.mantissa_bits)));
}

HWY_INLINE I16 LoadBytes(const int8_t* from, int64_t left) {
  alignas(64) int32_t wide[kLanes] = {};
  for (int64_t i = 0; i < left; ++i) wide[i] = from[i];
  return Load16(wide);
}

HWY_INLINE void StoreBytes(I16 x, int8_t* to, int64_t left) {
  alignas(64) int32_t wide[kLanes];
  Store16(x, wide);
  for (int64_t i = 0; i < left; ++i) to[i] = static_cast<int8_t>(wide[i]);
}

HWY_INLINE I16 FloorOf(F16 x) {
  return ForParts<I16>([&](size_t p)
                           HWY_ATTR { return hn::ConvertTo(I16::Tag(), hn::Floor(x.part[p])); });
}

void ResidualSum(const ResidualRules& rules, const float* w, const int8_t* c, const float* u,
                 float lr, int64_t count, float* x) {
  const F16 scale = Set16(rules.scale), inverse = Set16(1.0f / rules.scale);
  const F16 part = Set16(pow2(-rules.bits));
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 element = Mul(Load16(w + i, left), inverse);
    const F16 q = ToFloat(LoadBytes(c + i, left));
    // Exact: an element and its residual have at most 19 bits together.
    const F16 sum = Mul(Add(element, Mul(q, Mul(UlpOf(rules, element), part))), scale);
    Store16(Add(sum, Mul(Set16(lr), Load16(u + i, left))), x + i, left);
  });
}

void ResidualCarry(const ResidualRules& rules, const float* x, const uint16_t* draws, int64_t count,
                   float* elements, int8_t* c) {
  const F16 inverse = Set16(1.0f / rules.scale), units = Set16(pow2(rules.bits));
  const I16 half = Set16(1 << (rules.bits - 1));
  const F16 limit = Set16(pow2(rules.bits - 1));
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 element = Load16(elements + i, left);
    const F16 ulp = UlpOf(rules, element);
    const F16 rest = Sub(Mul(Load16(x + i, left), inverse), element);
    const F16 in_units = Mul(Div(rest, ulp), units);
    const F16 limited = Max(Min(in_units, limit), Neg(limit));
    // floor(t + R·2^-16) = (floor(t·2^16) + R) >> 16
    const I16 scaled = FloorOf(Mul(limited, Set16(0x1p16f)));
    I16 q = ShiftRight<16>(Add(scaled, LoadHalves16<int32_t>(draws + i)));
    q = Min(q, half);
    const auto is_carried = Eq(q, half);
    const auto is_largest = Eq(Abs(element), Set16(rules.max));
    const F16 next = Add(element, ulp);
    const auto grows = Gt(UlpOf(rules, next), ulp);
    const I16 one = Set16(1);
    const I16 zero = Zero16<int32_t>();
    const I16 least = Sub(zero, half);
    const I16 carried = Select(MaskAs<int32_t>(grows), ShiftRight<1>(least), least);
    const I16 moved = Select(MaskAs<int32_t>(is_largest), Sub(half, one), carried);
    q = Select(is_carried, moved, q);
    const F16 kept = Select(is_largest, element, next);
    Store16(Select(MaskAs<float>(is_carried), kept, element), elements + i, left);
    StoreBytes(q, c + i, left);
  });
}

// ---------------------------------------------------------------- the report

double SumOfSquares(const float* x, int64_t count) {
  D16 sum = Zero16<double>();
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const D16 v = Doubles(x + i, left);
    sum = Add(sum, Mul(v, v));
  });
  return FoldLanes(sum);
}

double SquaredDistance(const float* a, const float* b, int64_t count) {
  D16 sum = Zero16<double>();
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const D16 v = Sub(Doubles(a + i, left), Doubles(b + i, left));
    sum = Add(sum, Mul(v, v));
  });
  return FoldLanes(sum);
}

void AddToReport(const float* before, const float* after, const float* u, float lr, int64_t count,
                 UpdateReport& report) {
  D16 update = Zero16<double>(), target = update, product = update;
  const D16 rate = Set16(static_cast<double>(lr));
  int64_t changed = 0;
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const D16 change = Sub(Doubles(after + i, left), Doubles(before + i, left));
    const D16 wanted = Mul(rate, Doubles(u + i, left));
    update = Add(update, Mul(change, change));
    target = Add(target, Mul(wanted, wanted));
    product = Add(product, Mul(change, wanted));
    changed += CountTrue(Ne(Load16(after + i, left), Load16(before + i, left)));
  });
  report.update_squares += FoldLanes(update);
  report.target_squares += FoldLanes(target);
  report.product += FoldLanes(product);
  report.changed += static_cast<uint64_t>(changed);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AdamStretch);
HWY_EXPORT(AdamMiniStretch);
HWY_EXPORT(SgdStretch);
HWY_EXPORT(MuonStretch);
HWY_EXPORT(DirectionStretch);
HWY_EXPORT(AddScaled);
HWY_EXPORT(KahanSum);
HWY_EXPORT(KahanCarry);
HWY_EXPORT(FeedBack);
HWY_EXPORT(ResidualSum);
HWY_EXPORT(ResidualCarry);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(SquaredDistance);
HWY_EXPORT(AddToReport);

void step_stretch(OptimizerRule rule, const OptimizerNumbers& numbers, const OptimizerStretch& s) {
  switch (rule) {
    case OptimizerRule::adam_mini:
      return HWY_DYNAMIC_DISPATCH(AdamMiniStretch)(numbers, s);
    case OptimizerRule::sgd:
      return HWY_DYNAMIC_DISPATCH(SgdStretch)(numbers, s);
    case OptimizerRule::muon:
      return HWY_DYNAMIC_DISPATCH(MuonStretch)(numbers, s);
    case OptimizerRule::direction:
      return HWY_DYNAMIC_DISPATCH(DirectionStretch)(numbers, s);
    default:
      return HWY_DYNAMIC_DISPATCH(AdamStretch)(numbers, s);
  }
}
void add_scaled(const float* w, const float* u, float lr, int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(w, u, lr, count, x);
}
void kahan_sum(const float* w, const float* u, const Bf16* c, float lr, int64_t count, float* y,
               float* x) {
  HWY_DYNAMIC_DISPATCH(KahanSum)(w, u, c, lr, count, y, x);
}
void kahan_carry(const float* w, const float* t, const float* y, int64_t count, Bf16* c) {
  HWY_DYNAMIC_DISPATCH(KahanCarry)(w, t, y, count, c);
}
void feed_back(const OptimizerNumbers& numbers, const float* x, const float* t, const float* v,
               int64_t count, float* m) {
  HWY_DYNAMIC_DISPATCH(FeedBack)(numbers, x, t, v, count, m);
}
void residual_sum(const ResidualRules& rules, const float* w, const int8_t* c, const float* u,
                  float lr, int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(ResidualSum)(rules, w, c, u, lr, count, x);
}
void residual_carry(const ResidualRules& rules, const float* x, const uint16_t* draws,
                    int64_t count, float* elements, int8_t* c) {
  HWY_DYNAMIC_DISPATCH(ResidualCarry)(rules, x, draws, count, elements, c);
}
double sum_of_squares(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, count);
}
double squared_distance(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SquaredDistance)(a, b, count);
}
void add_to_report(const float* before, const float* after, const float* u, float lr, int64_t count,
                   UpdateReport& report) {
  HWY_DYNAMIC_DISPATCH(AddToReport)(before, after, u, lr, count, report);
}

}  // namespace ng::cpu
#endif
