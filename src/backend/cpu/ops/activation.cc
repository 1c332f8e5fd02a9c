#include "backend/cpu/ops/activation.h"

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/ops/stored_amax.h"
#include "backend/cpu/types.h"

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

// The same loop for each kind: with a choice inside, GCC 12 would call the body for every vector.
template <class Value>
HWY_INLINE void GeluRows(View y, ConstView x, const Value& value) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    const auto from = in.RowsOf(x);
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        in.Write(value(in.Read(from.row(r) + i, left)), to.row(r) + i, left);
      });
    }
  });
}

void GeluBlock(View y, ConstView x, GeluKind kind) {
  if (kind == GeluKind::tanh)
    GeluRows(y, x, [](F16 v) HWY_ATTR { return GeluTanh(v); });
  else
    GeluRows(y, x, [](F16 v) HWY_ATTR { return GeluErf(v); });
}

template <class Slope>
HWY_INLINE void GeluBackwardRows(View dx, ConstView dy, ConstView x, const Slope& slope) {
  WithStored(dx, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(dx);
    const auto slopes = in.RowsOf(dy), from = in.RowsOf(x);
    for (int64_t r = 0; r < dx.rows; ++r) {
      ForLanes(dx.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 d = slope(in.Read(from.row(r) + i, left));
        in.Write(Mul(in.Read(slopes.row(r) + i, left), d), to.row(r) + i, left);
      });
    }
  });
}

void GeluBackwardBlock(View dx, ConstView dy, ConstView x, GeluKind kind) {
  if (kind == GeluKind::tanh)
    GeluBackwardRows(dx, dy, x, [](F16 v) HWY_ATTR { return GeluTanhSlope(v); });
  else
    GeluBackwardRows(dx, dy, x, [](F16 v) HWY_ATTR { return GeluErfSlope(v); });
}

void SwigluBlock(View y, ConstView gate, ConstView up) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    const auto gates = in.RowsOf(gate), ups = in.RowsOf(up);
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 g = in.Read(gates.row(r) + i, left);
        const F16 u = in.Read(ups.row(r) + i, left);
        in.Write(Mul(Mul(g, Sigmoid(g).s), u), to.row(r) + i, left);
      });
    }
  });
}

void SwigluBackwardBlock(View dgate, View dup, ConstView dy, ConstView gate, ConstView up) {
  WithStored(dgate, [&](auto in) HWY_ATTR {
    const auto to_gate = in.RowsOf(dgate), to_up = in.RowsOf(dup);
    const auto slopes = in.RowsOf(dy), gates = in.RowsOf(gate), ups = in.RowsOf(up);
    for (int64_t r = 0; r < dy.rows; ++r) {
      ForLanes(dy.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 d = in.Read(slopes.row(r) + i, left);
        const F16 g = in.Read(gates.row(r) + i, left);
        const F16 u = in.Read(ups.row(r) + i, left);
        const Sigmoid16 sigmoid = Sigmoid(g);
        const F16 silu = Mul(g, sigmoid.s);
        const F16 slope = Fma(silu, sigmoid.rest, sigmoid.s);  // σ + g·σ·(1 - σ)
        in.Write(Mul(Mul(d, u), slope), to_gate.row(r) + i, left);
        in.Write(Mul(d, silu), to_up.row(r) + i, left);
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

void perform(Workspace& workspace, const Gelu& op) {
  require_one_type(op.kName, {op.y, op.x});
  const AmaxOfBlocks amax(op.amax);
  const auto block = [&](const View& y, const ConstView& x) {
    HWY_DYNAMIC_DISPATCH(GeluBlock)(y, x, op.kind);
    amax.note(y);
  };
  for_blocks(workspace.threads(), block, op.y, op.x);
}

void perform(Workspace& workspace, const GeluBackward& op) {
  require_one_type(op.kName, {op.dx, op.dy, op.x});
  const AmaxOfBlocks amax(op.amax);
  const auto block = [&](const View& dx, const ConstView& dy, const ConstView& x) {
    HWY_DYNAMIC_DISPATCH(GeluBackwardBlock)(dx, dy, x, op.kind);
    amax.note(dx);
  };
  for_blocks(workspace.threads(), block, op.dx, op.dy, op.x);
}

void perform(Workspace& workspace, const Swiglu& op) {
  require_one_type(op.kName, {op.y, op.gate, op.up});
  const AmaxOfBlocks amax(op.amax);
  const auto block = [&](const View& y, const ConstView& gate, const ConstView& up) {
    HWY_DYNAMIC_DISPATCH(SwigluBlock)(y, gate, up);
    amax.note(y);
  };
  for_blocks(workspace.threads(), block, op.y, op.gate, op.up);
}

void perform(Workspace& workspace, const SwigluBackward& op) {
  require_one_type(op.kName, {op.dgate, op.dup, op.dy, op.gate, op.up});
  const AmaxOfBlocks of_dgate(op.dgate_amax), of_dup(op.dup_amax);
  const auto block = [&](const View& dgate, const View& dup, const ConstView& dy,
                         const ConstView& gate, const ConstView& up) {
    HWY_DYNAMIC_DISPATCH(SwigluBackwardBlock)(dgate, dup, dy, gate, up);
    of_dgate.note(dgate);
    of_dup.note(dup);
  };
  for_blocks(workspace.threads(), block, op.dgate, op.dup, op.dy, op.gate, op.up);
}

}  // namespace ng::cpu
#endif
