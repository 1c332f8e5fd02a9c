#include "backend/host_preference.h"

#include "base/error.h"
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

}  // namespace

void preference_loss_on_host(const PreferenceLoss& op) {
  const int64_t tokens = op.losses.cols;
  NG_CHECK(op.length > 0 && tokens % (2 * op.length) == 0, tokens, op.length);
  const Tokens policy{row_of(op.losses, tokens), op.length};
  const Tokens reference{row_of(op.reference, tokens), op.length};
  const Tokens mask{row_of(op.mask, tokens), op.length};
  if (op.weights.rows > 0) row_of(op.weights, tokens);
  float* const weights = op.weights.as<float>().data;
  for (int64_t first = 0; first < tokens / op.length; first += 2) {
    PairOfSequences of;
    for (const int which : {0, 1}) {
      of.policy[which] = policy.sum_of(first + which);
      of.reference[which] = reference.sum_of(first + which);
      of.mask[which] = mask.sum_of(first + which);
    }
    const PairLoss pair = loss_of_pair(of, op.beta, op.label_smoothing);
    if (weights != nullptr)
      for (int64_t t = first * op.length; t < (first + 2) * op.length; ++t)
        weights[t] = pair.weight(mask.values[t], t < (first + 1) * op.length);
    if (!pair.counts) continue;
    *op.loss += pair.sums.loss;
    *op.sums += pair.sums;
  }
}

}  // namespace ng
