// A row is one item of work and stays in the core's second-level cache over its passes: largest
// logit, exponentials with their sum by the 16-lane tree, gradient.
#include "backend/cpu/ops/cross_entropy.h"

#include "math/log.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/cross_entropy.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/elementary-inl.h"
#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// A NaN may hide from the maximum, but not from the sum of exponentials.
template <class ReadAs>
HWY_INLINE float LargestLogit(ReadAs in, const float* x, int64_t cols) {
  const F16 lowest = Set16(-std::numeric_limits<float>::infinity());
  F16 largest[4] = {lowest, lowest, lowest, lowest};  // the order of a maximum is free
  int64_t i = 0;
  for (; i + 4 * kLanes <= cols; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) largest[k] = Max(largest[k], in.Read(x + i + k * kLanes, kLanes));
  float rest = -std::numeric_limits<float>::infinity();
  for (; i < cols; ++i) {
    alignas(64) float one[kLanes];
    Store16(in.Read(x + i, 1), one);
    rest = one[0] > rest ? one[0] : rest;
  }
  const F16 all = Max(Max(largest[0], largest[1]), Max(largest[2], largest[3]));
  return std::max(rest, MaxLane(all));
}

// ln Σ e^x - x[target], from the sum relative to the largest logit.
HWY_INLINE float Loss(float largest, float sum, float target) {
  return static_cast<float>(math::log(static_cast<double>(sum)) +
                            (static_cast<double>(largest) - static_cast<double>(target)));
}

// x becomes mask · (softmax(x) - onehot(target)) · scale; returns mask · cross-entropy.
float CrossEntropyRow(float* x, int64_t cols, int64_t target, float mask, float scale,
                      Compute compute) {
  float loss = 0;
  WithCompute(compute, [&](auto in) HWY_ATTR {
    const float largest = LargestLogit(in, x, cols);
    alignas(64) float logit[kLanes];
    Store16(in.Read(x + target, 1), logit);
    const float sum = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 e = Exp(Sub(in.Read(x + i, left), Set16(largest)));
      Store16(e, x + i, left);
      return Load16(x + i, left);
    });
    loss = mask * Loss(largest, sum, logit[0]);
    const F16 inverse = Set16(1.0f / sum);
    const auto gradient = [&](F16 difference)
                              HWY_ATTR { return Mul(Mul(Set16(mask), difference), Set16(scale)); };
    const F16 hit = gradient(Sub(Mul(Set16(x[target]), inverse), Set16(1.0f)));
    ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      in.Write(gradient(Mul(Load16(x + i, left), inverse)), x + i, left);
    });
    in.Write(hit, x + target, 1);
  });
  return loss;
}

float CrossEntropyLossRow(const float* x, int64_t cols, int64_t target, float mask,
                          Compute compute) {
  float loss = 0;
  WithCompute(compute, [&](auto in) HWY_ATTR {
    const float largest = LargestLogit(in, x, cols);
    alignas(64) float logit[kLanes];
    Store16(in.Read(x + target, 1), logit);
    const float sum = TreeSum(cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 e = Exp(Sub(in.Read(x + i, left), Set16(largest)));
      if (left >= kLanes) return e;
      alignas(64) float kept[kLanes];
      Store16(e, kept);
      return Load16(kept, left);
    });
    loss = mask * Loss(largest, sum, logit[0]);
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

float weight_of(const float* mask, int64_t t) { return mask != nullptr ? mask[t] : 1.0f; }

}  // namespace

void cross_entropy(Workspace& workspace, View logits, float* losses, TokenView targets,
                   const float* mask, float scale, Compute compute) {
  NG_CHECK(std::ssize(targets) == logits.rows, targets.size(), logits.rows);
  parallel_for(workspace.threads(), logits.rows, [&](int64_t t, int) {
    const float weight = weight_of(mask, t);
    losses[t] = 0;
    if (weight == 0) {
      std::fill_n(logits.row(t), logits.cols, 0.0f);
      return;
    }
    losses[t] = HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(
        logits.row(t), logits.cols, target_of(targets, t, logits.cols), weight, scale, compute);
  });
}

void cross_entropy_loss(Workspace& workspace, ConstView logits, float* losses, TokenView targets,
                        const float* mask, Compute compute) {
  NG_CHECK(std::ssize(targets) == logits.rows, targets.size(), logits.rows);
  parallel_for(workspace.threads(), logits.rows, [&](int64_t t, int) {
    const float weight = weight_of(mask, t);
    losses[t] = 0;
    if (weight == 0) return;
    losses[t] = HWY_DYNAMIC_DISPATCH(CrossEntropyLossRow)(
        logits.row(t), logits.cols, target_of(targets, t, logits.cols), weight, compute);
  });
}

}  // namespace ng::cpu
#endif
