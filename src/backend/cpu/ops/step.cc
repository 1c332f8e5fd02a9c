#include "backend/cpu/ops/step.h"

#include "backend/cpu/ops/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/step.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// m = β1·m + (1-β1)·g; v = β2·v + (1-β2)·g²; w = w·(1 - lr·λ) - lr·m̂/(sqrt(v̂) + ε), every
// operation rounded once in this order. [recipes.md §6]
void AdamWBlock(View w, View m, View v, ConstView g, const AdamW& args, float grad_scale) {
  const F16 beta1 = Set16(args.beta1), rest1 = Set16(1.0f - args.beta1);
  const F16 beta2 = Set16(args.beta2), rest2 = Set16(1.0f - args.beta2);
  const F16 correction1 = Set16(args.correction1), correction2 = Set16(args.correction2);
  const F16 lr = Set16(args.lr), eps = Set16(args.eps);
  const F16 keep = Set16(1.0f - args.lr * args.weight_decay);
  for (int64_t r = 0; r < w.rows; ++r) {
    ForLanes(w.cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 grad = Mul(Load16(g.row(r) + i, left), Set16(grad_scale));
      const F16 m1 = Add(Mul(beta1, Load16(m.row(r) + i, left)), Mul(rest1, grad));
      const F16 v1 = Add(Mul(beta2, Load16(v.row(r) + i, left)), Mul(rest2, Mul(grad, grad)));
      const F16 root = Add(Sqrt(Div(v1, correction2)), eps);
      const F16 change = Div(Mul(lr, Div(m1, correction1)), root);
      const F16 w1 = Sub(Mul(Load16(w.row(r) + i, left), keep), change);
      Store16(m1, m.row(r) + i, left);
      Store16(v1, v.row(r) + i, left);
      Store16(w1, w.row(r) + i, left);
    });
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AdamWBlock);

void adamw(Workspace& workspace, const AdamW& args) {
  if (args.control != nullptr && args.control->skip != 0) return;
  const float grad_scale = args.control != nullptr ? args.control->grad_scale : 1.0f;
  const auto block = [&](View w, View m, View v, ConstView g) {
    HWY_DYNAMIC_DISPATCH(AdamWBlock)(w, m, v, g, args, grad_scale);
  };
  for_blocks(workspace.threads(), block, args.weight, args.m, args.v, args.grad);
}

}  // namespace ng::cpu
#endif
