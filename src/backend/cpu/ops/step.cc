#include "backend/cpu/ops/step.h"

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/step.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// m = β1·m + (1-β1)·g; v = β2·v + (1-β2)·g²; w = w·(1 - lr·λ) - lr·m̂/(sqrt(v̂) + ε), every
// operation rounded once in this order. [recipes.md §6]
void AdamWBlock(View weight, View m, View v, ConstView grad, const OptimizerNumbers& op,
                float grad_scale) {
  const F16 beta1 = Set16(op.beta1), rest1 = Set16(1.0f - op.beta1);
  const F16 beta2 = Set16(op.beta2), rest2 = Set16(1.0f - op.beta2);
  const F16 correction1 = Set16(op.correction1), correction2 = Set16(op.correction2);
  const F16 lr = Set16(op.lr), eps = Set16(op.eps);
  const F16 keep = Set16(1.0f - op.lr * op.weight_decay);
  const Rows<float> ws = weight.as<float>(), ms = m.as<float>(), vs = v.as<float>();
  WithStored(grad, [&](auto in) HWY_ATTR {
    const auto gs = in.RowsOf(grad);
    for (int64_t r = 0; r < ws.rows; ++r) {
      ForLanes(ws.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 g = Mul(Load16(gs.row(r) + i, left), Set16(grad_scale));
        const F16 m1 = Add(Mul(beta1, Load16(ms.row(r) + i, left)), Mul(rest1, g));
        const F16 v1 = Add(Mul(beta2, Load16(vs.row(r) + i, left)), Mul(rest2, Mul(g, g)));
        const F16 root = Add(Sqrt(Div(v1, correction2)), eps);
        const F16 change = Div(Mul(lr, Div(m1, correction1)), root);
        const F16 w1 = Sub(Mul(Load16(ws.row(r) + i, left), keep), change);
        Store16(m1, ms.row(r) + i, left);
        Store16(v1, vs.row(r) + i, left);
        Store16(w1, ws.row(r) + i, left);
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
