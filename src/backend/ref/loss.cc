#include "backend/ref/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/ref/number.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng::ref {
namespace {

int64_t target_of(TokenView targets, int64_t t, ConstView logits) {
  const int64_t target = targets[static_cast<size_t>(t)];
  NG_CHECK(target >= 0 && target < logits.cols, target, logits.cols, t);
  return target;
}

double log_sum_exp(const float* row, int64_t n, Compute compute) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < n; ++c) max = std::max<double>(max, in(row[c], compute));
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += math::exp(in(row[c], compute) - max);
  return max + math::log(sum);
}

float mask_of(const float* mask, int64_t t) { return mask == nullptr ? 1.0f : mask[t]; }

}  // namespace

void cross_entropy_loss(ConstView logits, float* losses, TokenView targets, const float* mask,
                        Compute compute) {
  NG_CHECK(static_cast<int64_t>(targets.size()) == logits.rows, targets.size(), logits.rows);
  for (int64_t t = 0; t < logits.rows; ++t) {
    losses[t] = 0;
    if (mask_of(mask, t) == 0) continue;
    const float* row = logits.row(t);
    const double lse = log_sum_exp(row, logits.cols, compute);
    const double loss = lse - in(row[target_of(targets, t, logits)], compute);
    losses[t] = mask_of(mask, t) * static_cast<float>(loss);
  }
}

void cross_entropy(View logits, float* losses, TokenView targets, const float* mask, float scale,
                   Compute compute) {
  cross_entropy_loss(logits, losses, targets, mask, compute);
  for (int64_t t = 0; t < logits.rows; ++t) {
    float* row = logits.row(t);
    if (mask_of(mask, t) == 0) {
      std::fill_n(row, logits.cols, 0.0f);
      continue;
    }
    const double lse = log_sum_exp(row, logits.cols, compute);
    const int64_t target = target_of(targets, t, logits);
    for (int64_t c = 0; c < logits.cols; ++c) {
      const auto p = static_cast<float>(math::exp(in(row[c], compute) - lse));
      const float difference = p - (c == target ? 1.0f : 0.0f);
      row[c] = out(mask_of(mask, t) * difference * scale, compute);
    }
  }
}

}  // namespace ng::ref
