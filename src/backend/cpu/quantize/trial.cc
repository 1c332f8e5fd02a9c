// Kernels over sixteen blocks or groups of blocks as lanes: errors at a scale that is tried
// [formats.md §3.2, §4.1], sums of which rounding eden corrects scales [linear.md 5].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/trial.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/list-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// error + the next one, by the trial's kind.
HWY_INLINE D16 WithError(BlockTrial::Error kind, const D16& error, const D16& off) {
  const D16 magnitude = Abs(off);
  switch (kind) {
    case BlockTrial::Error::max:
      return Select(Gt(magnitude, error), magnitude, error);
    case BlockTrial::Error::mae:
      return Add(error, magnitude);
    default:
      return Add(error, Mul(off, off));
  }
}

// round(y, draws) -> elements of sixteen scaled values
template <Variant v, class Round>
void BlockErrorsBy(const Round& round, const Rules& k, const BlockTrial& all, double* errors) {
  const BlockTrial trial = all;  // which no store can change
  const F16 multiplier = Load16(trial.multipliers), scale = Load16(trial.scales);
  const F16 tensor_scale = Load16(trial.tensor_scales);
  const D16 exact_scale = LoadAsDouble16(trial.scales);
  D16 error = Zero16<double>();
  for (int64_t i = 0; i < trial.count; ++i) {
    const float* line = trial.values + i * trial.stride;
    U16 draw = Zero16<uint32_t>();
    if constexpr (v.stochastic) draw = LoadHalves16<uint32_t>(trial.draws + i * trial.draw_stride);
    const F16 element = round(Scaled<v>(k, Load16(line), multiplier), draw);
    const D16 decoded = trial.error == BlockTrial::Error::exact
                            ? Mul(ToDouble(element), exact_scale)
                            : ToDouble(Mul(Mul(element, scale), tensor_scale));
    error = WithError(trial.error, error, Sub(decoded, LoadAsDouble16(line)));
  }
  Store16(error, errors);
}

template <Variant v>
void BlockErrorsOf(const ElementGrid& grid, const BlockTrial& trial, double* errors) {
  const Rules k = RulesOf(grid, {.values = {}, .divides = trial.divides});
  BlockErrorsBy<v>([&](F16 y, U16 draw) HWY_ATTR { return RoundElement<v>(k, y, draw); }, k, trial,
                   errors);
}

// By the second element of a list.
template <bool kStochastic>
void OtherErrors(const BlockTrial& trial, double* errors) {
  const OtherRules other = OtherRulesOf(*trial.other);
  BlockErrorsBy<kOtherVariant<kStochastic>>(
      [&](F16 y, U16 draw) HWY_ATTR { return RoundOther<kStochastic>(other, y, draw); },
      other.integers, trial, errors);
}

void BlockErrors(const ElementGrid& grid, const BlockTrial& trial, double* errors) {
  if (trial.other != nullptr)
    return trial.draws == nullptr ? OtherErrors<false>(trial, errors)
                                  : OtherErrors<true>(trial, errors);
  // A zero's sign is no error.
  if (trial.draws == nullptr)
    BlockErrorsOf<Variant{Kind::small, false, false}>(grid, trial, errors);
  else if (grid.kind == Kind::integer)
    BlockErrorsOf<Variant{Kind::integer, true, false}>(grid, trial, errors);
  else
    BlockErrorsOf<Variant{Kind::small, true, false}>(grid, trial, errors);
}

// -1 in the lanes of a comparison of doubles, else 0.
HWY_INLINE I16 WhereLess(const D16& a, const D16& b) {
  alignas(64) float lane[kLanes];
  const D16 one = Select(Lt(a, b), Set16(1.0), Zero16<double>());
  for (int p = 0; p < D16::kParts; ++p) {
    const hn::Rebind<float, D16::Tag> half;
    hn::StoreU(hn::DemoteTo(half, one.part[p]), half, lane + p * D16::kWidth);
  }
  return Select(MaskAs<int32_t>(Gt(Load16(lane), Zero16())), Set16(-1), Zero16<int32_t>());
}

void TakeBetter(const TriedScales& tried, bool is_first, BestScales& best) {
  const D16 error = Load16(tried.errors), least = Load16(best.errors);
  I16 taken = Load16(tried.chooses);
  if (is_first) {
    Store16(error, best.errors);
  } else {
    taken = And(taken, WhereLess(error, least));
    Store16(Select(Lt(error, least), error, least), best.errors);
  }
  const M16 mask = MaskAs<float>(Lt(taken, Zero16<int32_t>()));
  Store16(Select(mask, Load16(tried.scales), Load16(best.scales)), best.scales);
  Store16(Select(mask, Load16(tried.multipliers), Load16(best.multipliers)), best.multipliers);
}

void AddProjections(const ElementGrid& grid, const GroupValues& group, double* squares,
                    double* products) {
  constexpr Variant kNearest{Kind::small, false, false};  // a zero's sign changes no sum
  const Rules k = RulesOf(grid, {.values = {}, .prescale = group.prescale});
  const F16 multiplier = Load16(group.multipliers), scale = Load16(group.scales);
  const F16 tensor_scale = Load16(group.tensor_scales);
  D16 square = Load16(squares), product = Load16(products);
  for (int64_t i = 0; i < group.count; ++i) {
    const float* line = group.values + i * kLanes;
    const D16 x = LoadAsDouble16(line);
    const F16 element = RoundElement<kNearest>(k, Scaled<kNearest>(k, Load16(line), multiplier),
                                               Zero16<uint32_t>());
    const D16 decoded = ToDouble(Mul(Mul(element, scale), tensor_scale));
    square = Add(square, Mul(x, x));
    product = Add(product, Mul(x, decoded));
  }
  Store16(square, squares);
  Store16(product, products);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(BlockErrors);
HWY_EXPORT(TakeBetter);
HWY_EXPORT(AddProjections);

void block_errors(const ElementGrid& grid, const BlockTrial& trial, double* errors) {
  NG_CHECK(is_tried(grid), trial.count);
  HWY_DYNAMIC_DISPATCH(BlockErrors)(grid, trial, errors);
}

void take_better(const TriedScales& tried, bool is_first, BestScales& best) {
  HWY_DYNAMIC_DISPATCH(TakeBetter)(tried, is_first, best);
}

void add_projections(const ElementGrid& grid, const GroupValues& group, double* squares,
                     double* products) {
  NG_CHECK(is_tried(grid), group.count);
  HWY_DYNAMIC_DISPATCH(AddProjections)(grid, group, squares, products);
}

}  // namespace ng::cpu
#endif
