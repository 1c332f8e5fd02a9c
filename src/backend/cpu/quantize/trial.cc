// The errors of scales that are tried, for sixteen blocks at once. [formats.md §3.2, mse]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/trial.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/element-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE D16 ToDouble(F16 x) {
  alignas(64) float lane[kLanes];
  Store16(x, lane);
  return LoadAsDouble16(lane);
}

void BlockErrors(const ElementGrid& grid, const BlockTrial& trial, double (&errors)[2][16]) {
  const Rules k = RulesOf(grid, {});
  for (int i = 0; i < 2; ++i) {
    const F16 multiplier = Load16(trial.multipliers[i]);
    const D16 scale = LoadAsDouble16(trial.scales[i]);
    D16 sum = Zero16<double>();
    for (int64_t c = 0; c < trial.block; ++c) {
      alignas(64) float column[kLanes];
      for (int b = 0; b < kLanes; ++b) column[b] = trial.values[b * trial.block + c];
      const F16 x = Load16(column);
      const F16 q = RoundElement<Variant{}>(k, Mul(x, multiplier), Zero16<uint32_t>());
      const D16 off = Sub(ToDouble(x), Mul(ToDouble(q), scale));
      sum = Add(sum, Mul(off, off));
    }
    Store16(sum, errors[i]);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(BlockErrors);

void block_errors(const ElementGrid& grid, const BlockTrial& trial, double (&errors)[2][16]) {
  NG_CHECK(grid.kind == ElementGrid::Kind::small, trial.block);
  HWY_DYNAMIC_DISPATCH(BlockErrors)(grid, trial, errors);
}

}  // namespace ng::cpu
#endif
