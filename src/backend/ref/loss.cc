#include "backend/ref/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/host_preference.h"
#include "backend/ref/number.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng::ref {
namespace {

int64_t target_of(TokenView targets, int64_t t, const ConstView& logits) {
  const int64_t target = targets[static_cast<size_t>(t)];
  NG_CHECK(target >= 0 && target < logits.cols, target, logits.cols, t);
  return target;
}

double log_sum_exp(const Reader& logits, int64_t t) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < logits.cols(); ++c) max = std::max<double>(max, logits(t, c));
  double sum = 0;
  for (int64_t c = 0; c < logits.cols(); ++c) sum += math::exp(logits(t, c) - max);
  return max + math::log(sum);
}

float mask_of(const Reader& mask, int64_t t) { return mask.rows() == 0 ? 1.0f : mask(0, t); }

}  // namespace

void perform(const CrossEntropyLoss& op) {
  NG_CHECK(static_cast<int64_t>(op.targets.size()) == op.logits.rows, op.targets.size(),
           op.logits.rows);
  const Reader logits(op.logits), mask(op.mask);
  const Writer losses(op.losses);
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    losses.put(0, t, 0);
    if (mask_of(mask, t) == 0) continue;
    const double loss = log_sum_exp(logits, t) - logits(t, target_of(op.targets, t, op.logits));
    losses.put(0, t, mask_of(mask, t) * static_cast<float>(loss));
  }
}

void perform(const CrossEntropy& op) {
  perform(CrossEntropyLoss{
      .logits = op.logits, .losses = op.losses, .targets = op.targets, .mask = op.mask});
  const Reader logits(op.logits), mask(op.mask);
  const Writer dlogits(op.logits);
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    const float weight = mask_of(mask, t);
    if (weight == 0) {
      for (int64_t c = 0; c < op.logits.cols; ++c) dlogits.put(t, c, 0);
      continue;
    }
    const double lse = log_sum_exp(logits, t);
    const int64_t target = target_of(op.targets, t, op.logits);
    for (int64_t c = 0; c < op.logits.cols; ++c) {
      const auto p = static_cast<float>(math::exp(logits(t, c) - lse));
      const float difference = p - (c == target ? 1.0f : 0.0f);
      dlogits.put(t, c, weight * difference * op.scale);
    }
  }
}

void perform(const PreferenceLoss& op) { preference_loss_on_host(op); }

}  // namespace ng::ref
