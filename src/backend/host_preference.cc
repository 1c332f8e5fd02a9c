#include "backend/host_preference.h"

#include "base/error.h"
#include "math/weight_noise.h"
#include "tensor/rows.h"

namespace ng {
namespace {

/// FP32 values of a row, by sequence.
struct Tokens {
  const float* values;
  int64_t length;

  [[nodiscard]] double sum_of(int64_t sequence) const {
    double sum = 0;
    for (int64_t t = sequence * length; t < (sequence + 1) * length; ++t) sum += double{values[t]};
    return sum;
  }
};

const float* row_of(const ConstView& view, int64_t tokens) {
  NG_CHECK(view.rows == 1 && view.cols == tokens, view.rows, view.cols, tokens);
  return view.as<float>().data;
}

void put_weights(const PreferenceLoss& op, const float* mask, int64_t pair, double slope) {
  if (op.weights.rows == 0) return;
  float* const weights = op.weights.as<float>().data;
  for (int64_t t = 2 * pair * op.length; t < 2 * (pair + 1) * op.length; ++t) {
    const bool is_chosen = t < (2 * pair + 1) * op.length;
    weights[t] = mask[t] * static_cast<float>(is_chosen ? slope : -slope);
  }
}

}  // namespace

PreferenceSums& PreferenceSums::operator+=(const PreferenceSums& other) {
  pairs += other.pairs;
  loss += other.loss;
  chosen += other.chosen;
  rejected += other.rejected;
  chosen_reward += other.chosen_reward;
  rejected_reward += other.rejected_reward;
  accurate += other.accurate;
  return *this;
}

void preference_loss_on_host(const PreferenceLoss& op) {
  const int64_t tokens = op.losses.cols;
  NG_CHECK(op.length > 0 && tokens % (2 * op.length) == 0, tokens, op.length);
  const Tokens policy{row_of(op.losses, tokens), op.length};
  const Tokens reference{row_of(op.reference, tokens), op.length};
  const Tokens mask{row_of(op.mask, tokens), op.length};
  if (op.weights.rows > 0) row_of(op.weights, tokens);
  for (int64_t pair = 0; pair < tokens / (2 * op.length); ++pair) {
    const int64_t c = 2 * pair, r = c + 1;
    const bool counts = mask.sum_of(c) + mask.sum_of(r) > 0;
    PreferenceSums one{.pairs = 1, .chosen = -policy.sum_of(c), .rejected = -policy.sum_of(r)};
    one.chosen_reward = op.beta * (one.chosen + reference.sum_of(c));
    one.rejected_reward = op.beta * (one.rejected + reference.sum_of(r));
    const double z = one.chosen_reward - one.rejected_reward;
    one.accurate = z > 0 ? 1 : 0;
    // softplus(x) = -ln σ(-x)
    one.loss = (1 - op.label_smoothing) * softplus(-z);
    if (op.label_smoothing > 0) one.loss += op.label_smoothing * softplus(z);  // which may be ∞
    put_weights(op, mask.values, pair,
                counts ? op.beta * (1 - op.label_smoothing - sigmoid(z)) : 0);
    if (!counts) continue;
    *op.loss += one.loss;
    *op.sums += one;
  }
}

}  // namespace ng
