#include "backend/cpu/ops/activation.h"

#include "backend/cpu/ops/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/activation.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/elementary-inl.h"
#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

struct Sigmoid16 {
  F16 s;     // 1 / (1 + e^-x)
  F16 rest;  // 1 - s, without cancellation
};

HWY_INLINE Sigmoid16 Sigmoid(F16 x) {
  const F16 e = Exp(Neg(Abs(x)));
  const F16 large = Div(Set16(1.0f), Add(Set16(1.0f), e));
  const F16 small = Mul(e, large);
  const M16 negative = Lt(x, Zero16());
  return {Select(negative, small, large), Select(negative, large, small)};
}

constexpr float kTwoSqrtTwoOverPi = 0x1.988454p+0f;  // 2 · sqrt(2/π)
constexpr float kCubic = 0.044715f;
// Beyond ±100 the result is x or 0 whatever u is; the limit keeps x³ from overflowing.
constexpr float kFar = 100.0f;

// The value and the derivative of x · σ(2u).
HWY_INLINE F16 GeluTanh(F16 x) {
  const F16 c = Min(Set16(kFar), Max(Set16(-kFar), x));
  const F16 inner = Fma(Mul(Set16(kCubic), c), c, Set16(1.0f));
  return Mul(x, Sigmoid(Mul(Mul(Set16(kTwoSqrtTwoOverPi), c), inner)).s);
}

HWY_INLINE F16 GeluTanhSlope(F16 x) {
  const F16 c = Min(Set16(kFar), Max(Set16(-kFar), x));
  const F16 square = Mul(c, c);
  const F16 scaled = Mul(Set16(kTwoSqrtTwoOverPi), c);
  const Sigmoid16 sigmoid = Sigmoid(Mul(scaled, Fma(Set16(kCubic), square, Set16(1.0f))));
  const F16 inner_slope = Fma(Set16(3 * kCubic), square, Set16(1.0f));
  return Fma(Mul(scaled, inner_slope), Mul(sigmoid.s, sigmoid.rest), sigmoid.s);
}

HWY_INLINE F16 GeluErf(F16 x) { return Mul(x, NormalCdf(x).cdf); }

HWY_INLINE F16 GeluErfSlope(F16 x) {
  const Cdf16 normal = NormalCdf(x);
  return Fma(x, normal.density, normal.cdf);
}

void GeluBlock(View y, ConstView x, Gelu kind, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 v = in.Read(x.row(r) + i, left);
        in.Write(kind == Gelu::tanh ? GeluTanh(v) : GeluErf(v), y.row(r) + i, left);
      });
    }
  });
}

void GeluBackwardBlock(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < dx.rows; ++r) {
      ForLanes(dx.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 v = in.Read(x.row(r) + i, left);
        const F16 slope = kind == Gelu::tanh ? GeluTanhSlope(v) : GeluErfSlope(v);
        in.Write(Mul(in.Read(dy.row(r) + i, left), slope), dx.row(r) + i, left);
      });
    }
  });
}

void SwigluBlock(View y, ConstView gate, ConstView up, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 g = in.Read(gate.row(r) + i, left);
        const F16 u = in.Read(up.row(r) + i, left);
        in.Write(Mul(Mul(g, Sigmoid(g).s), u), y.row(r) + i, left);
      });
    }
  });
}

void SwigluBackwardBlock(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                         Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < dy.rows; ++r) {
      ForLanes(dy.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 d = in.Read(dy.row(r) + i, left);
        const F16 g = in.Read(gate.row(r) + i, left);
        const F16 u = in.Read(up.row(r) + i, left);
        const Sigmoid16 sigmoid = Sigmoid(g);
        const F16 silu = Mul(g, sigmoid.s);
        const F16 slope = Fma(silu, sigmoid.rest, sigmoid.s);  // σ + g·σ·(1 - σ)
        in.Write(Mul(Mul(d, u), slope), dgate.row(r) + i, left);
        in.Write(Mul(d, silu), dup.row(r) + i, left);
      });
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(GeluBlock);
HWY_EXPORT(GeluBackwardBlock);
HWY_EXPORT(SwigluBlock);
HWY_EXPORT(SwigluBackwardBlock);

void gelu(Workspace& workspace, View y, ConstView x, Gelu kind, Compute compute) {
  const auto block = [&](View yb, ConstView xb) {
    HWY_DYNAMIC_DISPATCH(GeluBlock)(yb, xb, kind, compute);
  };
  for_blocks(workspace.threads(), block, y, x);
}

void gelu_backward(Workspace& workspace, View dx, ConstView dy, ConstView x, Gelu kind,
                   Compute compute) {
  const auto block = [&](View dxb, ConstView dyb, ConstView xb) {
    HWY_DYNAMIC_DISPATCH(GeluBackwardBlock)(dxb, dyb, xb, kind, compute);
  };
  for_blocks(workspace.threads(), block, dx, dy, x);
}

void swiglu(Workspace& workspace, View y, ConstView gate, ConstView up, Compute compute) {
  const auto block = [&](View yb, ConstView gb, ConstView ub) {
    HWY_DYNAMIC_DISPATCH(SwigluBlock)(yb, gb, ub, compute);
  };
  for_blocks(workspace.threads(), block, y, gate, up);
}

void swiglu_backward(Workspace& workspace, View dgate, View dup, ConstView dy, ConstView gate,
                     ConstView up, Compute compute) {
  const auto block = [&](View dgb, View dub, ConstView dyb, ConstView gb, ConstView ub) {
    HWY_DYNAMIC_DISPATCH(SwigluBackwardBlock)(dgb, dub, dyb, gb, ub, compute);
  };
  for_blocks(workspace.threads(), block, dgate, dup, dy, gate, up);
}

}  // namespace ng::cpu
#endif
