// A row is one item of work and stays in the core's second-level cache over its passes: largest
// logit, exponentials with their sum by the 16-lane tree, gradient.
#include "backend/cpu/ops/cross_entropy.h"

#include "backend/cpu/types.h"
#include "math/log.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/cross_entropy.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/elementary-inl.h"
#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE float ValueOf(float x) { return x; }
HWY_INLINE float ValueOf(Bf16 x) { return widened(x); }

// A NaN may hide from the maximum, but not from the sum of exponentials.
template <class Stored>
HWY_INLINE float LargestLogit(In<Stored> in, const Stored* x, int64_t cols) {
  const F16 lowest = Set16(-std::numeric_limits<float>::infinity());
  F16 largest[4] = {lowest, lowest, lowest, lowest};  // the order of a maximum is free
  int64_t i = 0;
  for (; i + 4 * kLanes <= cols; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) largest[k] = Max(largest[k], in.Read(x + i + k * kLanes, kLanes));
  float rest = -std::numeric_limits<float>::infinity();
  for (; i < cols; ++i) {
    const float one = ValueOf(x[i]);
    rest = one > rest ? one : rest;
  }
  const F16 all = Max(Max(largest[0], largest[1]), Max(largest[2], largest[3]));
  return std::max(rest, MaxLane(all));
}

// ln Σ e^x - x[target], from the sum relative to the largest logit.
HWY_INLINE float Loss(float largest, float sum, float target) {
  return static_cast<float>(math::log(static_cast<double>(sum)) +
                            (static_cast<double>(largest) - static_cast<double>(target)));
}

// Where the exponentials of a row lie between the passes, which read them unrounded: in its own
// memory, where that is FP32. Those beyond the room are made again.
struct Exponentials {
  float* at;
  int64_t kept;
};
HWY_INLINE Exponentials ExponentialsOf(const Rows<float>& row, std::span<float> /* room */) {
  return {row.data, row.cols};
}
HWY_INLINE Exponentials ExponentialsOf(const Rows<Bf16>& row, std::span<float> room) {
  return {room.data(), std::min<int64_t>(row.cols, std::ssize(room) / kLanes * kLanes)};
}

// logits becomes mask · (softmax - onehot(target)) · scale; returns mask · cross-entropy.
float CrossEntropyRow(View logits, int64_t target, float mask, float scale, std::span<float> room) {
  float loss = 0;
  WithStored(logits, [&](auto in) HWY_ATTR {
    auto* x = in.RowsOf(logits).data;
    const Exponentials e = ExponentialsOf(in.RowsOf(logits), room);
    const int64_t cols = logits.cols;
    const float largest = LargestLogit(in, x, cols);
    const float logit = ValueOf(x[target]);
    const auto exponential = [&](F16 value) HWY_ATTR { return Exp(Sub(value, Set16(largest))); };
    const float sum = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
      alignas(64) float beyond[kLanes];
      float* to = i < e.kept ? e.at + i : beyond;
      Store16(exponential(in.Read(x + i, left)), to, left);
      return Load16(to, left);
    });
    loss = mask * Loss(largest, sum, logit);
    const F16 inverse = Set16(1.0f / sum);
    const auto gradient = [&](F16 difference)
                              HWY_ATTR { return Mul(Mul(Set16(mask), difference), Set16(scale)); };
    const F16 hit = gradient(Sub(Mul(exponential(Set16(logit)), inverse), Set16(1.0f)));
    ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 one = i < e.kept ? Load16(e.at + i, left) : exponential(in.Read(x + i, left));
      in.Write(gradient(Mul(one, inverse)), x + i, left);
    });
    in.Write(hit, x + target, 1);
  });
  return loss;
}

float CrossEntropyLossRow(ConstView logits, int64_t target, float mask) {
  float loss = 0;
  WithStored(logits, [&](auto in) HWY_ATTR {
    const auto* x = in.RowsOf(logits).data;
    const float largest = LargestLogit(in, x, logits.cols);
    const float sum = TreeSum(logits.cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 e = Exp(Sub(in.Read(x + i, left), Set16(largest)));
      if (left >= kLanes) return e;
      alignas(64) float kept[kLanes];
      Store16(e, kept);
      return Load16(kept, left);
    });
    loss = mask * Loss(largest, sum, ValueOf(x[target]));
  });
  return loss;
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(CrossEntropyLossRow);

namespace {

// The target of row t; checked only where it counts.
int64_t target_of(TokenView targets, int64_t t, int64_t vocabulary) {
  const int64_t target = targets[static_cast<size_t>(t)];
  NG_CHECK(target >= 0 && target < vocabulary, target, vocabulary, t);
  return target;
}

float weight_of(const Rows<const float>& mask, int64_t t) {
  return mask.rows > 0 ? mask.row(0)[t] : 1.0f;
}

// losses[t] = loss_of(t, mask[t], worker), 0 where the mask is.
template <class Op, class LossOf>
void each_loss(Workspace& workspace, const Op& op, const LossOf& loss_of) {
  require_one_type(op.kName, {op.logits});
  require_fp32(op.kName, {op.losses, op.mask});
  const int64_t rows = op.logits.rows;
  NG_CHECK(std::ssize(op.targets) == rows, op.targets.size(), rows);
  if (rows == 0) return;
  NG_CHECK(op.losses.cols == rows && (op.mask.rows == 0 || op.mask.cols == rows), op.losses.cols,
           op.mask.cols, rows);
  float* losses = op.losses.template as<float>().data;
  const Rows<const float> mask = op.mask.template as<float>();
  parallel_for(workspace.threads(), rows,
               [&](int64_t t, int worker) { losses[t] = loss_of(t, weight_of(mask, t), worker); });
}

}  // namespace

void perform(Workspace& workspace, const CrossEntropy& op) {
  const int64_t cols = op.logits.cols;
  each_loss(workspace, op, [&](int64_t t, float weight, int worker) {
    const View row = op.logits.slice(t, 1);
    if (weight == 0) {
      std::fill_n(row.data, row.bytes(), std::byte{0});
      return 0.0f;
    }
    const std::span<std::byte> scratch = workspace.worker(worker);
    const std::span room(reinterpret_cast<float*>(scratch.data()), scratch.size() / sizeof(float));
    return HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(row, target_of(op.targets, t, cols), weight,
                                                 op.scale, room);
  });
}

void perform(Workspace& workspace, const CrossEntropyLoss& op) {
  each_loss(workspace, op, [&](int64_t t, float weight, int) {
    if (weight == 0) return 0.0f;
    return HWY_DYNAMIC_DISPATCH(CrossEntropyLossRow)(
        op.logits.slice(t, 1), target_of(op.targets, t, op.logits.cols), weight);
  });
}

}  // namespace ng::cpu
#endif
