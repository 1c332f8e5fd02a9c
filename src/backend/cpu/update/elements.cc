#include "backend/cpu/update/elements.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/elements.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/update/adam-inl.h"
#include "backend/cpu/update/residual-inl.h"
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
    const AdamStep step{Div(m, k.minus1.value), root};
    Store16(m, s.new_m + i, left);
    Store16(v, s.new_v + i, left);
    if (s.x != nullptr) Store16(NewWeight(k, w, step), s.x + i, left);
    if (s.u != nullptr) Store16(Direction(k, w, step), s.u + i, left);
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
    const F16 rate = Div(k.lr, Mul(Set16(numbers.correction1), RootOf(k, Load16(v + i, left))));
    const F16 fed = Div(Mul(error, k.rest1), Mul(k.beta1, rate));
    Store16(Sub(Load16(m + i, left), fed), m + i, left);
  });
}

// ---------------------------------------------------------------- residuals

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

void ResidualSum(const ResidualRules& rules, const float* w, const int8_t* c, const float* u,
                 float lr, int64_t count, float* x) {
  const ResidualLanes k = LanesOf(rules);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 sum = WithResidual<true>(k, Load16(w + i, left), LoadBytes(c + i, left));
    Store16(Add(sum, Mul(Set16(lr), Load16(u + i, left))), x + i, left);
  });
}

void ResidualCarry(const ResidualRules& rules, const float* x, const uint16_t* draws, int64_t count,
                   float* elements, int8_t* c) {
  const ResidualLanes k = LanesOf(rules);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const ResidualPair pair = CarryOf<true>(k, Load16(x + i, left), Load16(elements + i, left),
                                            LoadHalves16<int32_t>(draws + i));
    Store16(pair.element, elements + i, left);
    StoreBytes(pair.c, c + i, left);
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
