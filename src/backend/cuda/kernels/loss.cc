// Cross-entropy, a warp for each row of logits.
#include <cmath>
#include <limits>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng::cuda {
namespace {

/// losses[t] = mask·(lse - logits[t][target]); with `dlogits` also mask·(softmax - onehot)·scale.
struct LossRow {
  Target dlogits;  ///< no rows: not wanted; may be the memory of logits
  Target losses;
  Source logits, mask;
  const int32_t* targets;
  float scale;
  const StepNumbers* live = nullptr;  ///< whose scale it is; null: `scale`

  __device__ void operator()(int64_t row, int lane) const {
    const float weight = mask.rows == 0 ? 1.0f : mask(0, row);
    if (weight == 0) {
      if (lane == 0) losses.put(0, row, 0);
      for (int64_t c = lane; c < dlogits.cols; c += kWarp) dlogits.put(row, c, 0);
      return;
    }
    float largest = -std::numeric_limits<float>::infinity();
    for_each_logit(row, lane, [&](int64_t, float x) { largest = x > largest ? x : largest; });
    largest = largest_value_of_warp(largest);
    double sum = 0;
    for_each_logit(row, lane, [&](int64_t, float x) { sum += math::exp(x - largest); });
    const double lse = largest + math::log(sum_of_warp(sum));
    const int64_t target = targets[row];
    if (lane == 0) losses.put(0, row, weight * static_cast<float>(lse - logits(row, target)));
    __syncwarp();  // the target's logit is read before it is overwritten
    const float factor = live != nullptr ? live->loss_scale : scale;
    if (dlogits.rows == 0) return;
    for_each_logit(row, lane, [&](int64_t c, float x) {
      const float p = math::exp(static_cast<float>(x - lse));
      dlogits.put(row, c, weight * (p - (c == target ? 1.0f : 0.0f)) * factor);
    });
  }

 private:
  static constexpr int kAheadOfUse = 8;  ///< logits that a lane reads before it uses them

  template <class Use>
  __device__ void for_each_logit(int64_t row, int lane, const Use& use) const {
    for (int64_t first = lane; first < logits.cols; first += kWarp * kAheadOfUse) {
      float x[kAheadOfUse];
      NG_UNROLL
      for (int i = 0; i < kAheadOfUse; ++i) {
        const int64_t c = first + i * kWarp;
        x[i] = c < logits.cols ? logits(row, c) : 0.0f;
      }
      NG_UNROLL
      for (int i = 0; i < kAheadOfUse; ++i)
        if (first + i * kWarp < logits.cols) use(first + i * kWarp, x[i]);
    }
  }
};

LossRow loss_row(std::string_view name, const ConstView& logits, const View& losses,
                 TokenView targets, const ConstView& mask) {
  NG_CHECK(static_cast<int64_t>(targets.size()) == logits.rows, targets.size(), logits.rows);
  return {.dlogits = {},
          .losses = target_of(name, losses),
          .logits = source_of(name, logits),
          .mask = source_of(name, mask),
          .targets = targets.data(),
          .scale = 1};
}

}  // namespace

void perform(Stream stream, const CrossEntropyLoss& op) {
  for_each_row(stream, op.logits.rows,
               loss_row(CrossEntropyLoss::kName, op.logits, op.losses, op.targets, op.mask));
}

void perform(Stream stream, const CrossEntropy& op) {
  LossRow row = loss_row(CrossEntropy::kName, op.logits, op.losses, op.targets, op.mask);
  row.dlogits = target_of(CrossEntropy::kName, op.logits);
  row.scale = op.scale;
  row.live = live_numbers(stream);
  for_each_row(stream, op.logits.rows, row);
}

}  // namespace ng::cuda
