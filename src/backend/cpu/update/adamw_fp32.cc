#include "backend/cpu/update/adamw_fp32.h"

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/adamw_fp32.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/update/adam-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

void AdamWBlock(View weight, View m, View v, ConstView grad, const OptimizerNumbers& numbers,
                float grad_scale) {
  const StepRules k = RulesOf(numbers, grad_scale);
  const Rows<float> ws = weight.as<float>(), ms = m.as<float>(), vs = v.as<float>();
  WithStored(grad, [&](auto in) HWY_ATTR {
    const auto gs = in.RowsOf(grad);
    for (int64_t r = 0; r < ws.rows; ++r) {
      ForLanes(ws.cols, [&](int64_t i, auto left) HWY_ATTR {
        const AdamMoments a = MoveMoments(k, Load16(ms.row(r) + i, left),
                                          Load16(vs.row(r) + i, left), Load16(gs.row(r) + i, left));
        const F16 w = NewWeight(k, Load16(ws.row(r) + i, left), a);
        Store16(a.m, ms.row(r) + i, left);
        Store16(a.v, vs.row(r) + i, left);
        Store16(w, ws.row(r) + i, left);
      });
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AdamWBlock);

bool is_adamw_in_fp32(const Update& op) {
  const bool has_values = op.grad.is(fp32_format()) || op.grad.is(bf16_format());
  return op.optimizer == OptimizerRule::adamw && op.weight.value.cast.is_fp32() &&
         !op.weight.master && op.moment1.cast.is_fp32() && op.moment2.cast.is_fp32() &&
         has_values && !op.grad.has_scales() && op.report == nullptr;
}

void adamw_in_fp32(Workspace& workspace, const Update& op) {
  const float grad_scale = op.control != nullptr ? op.control->grad_scale : 1.0f;
  const auto block = [&](const View& w, const View& m, const View& v, const ConstView& g) {
    HWY_DYNAMIC_DISPATCH(AdamWBlock)(w, m, v, g, op.numbers, grad_scale);
  };
  for_blocks(workspace.threads(), block, op.weight.value.view, op.moment1.view, op.moment2.view,
             op.grad);
}

}  // namespace ng::cpu
#endif
