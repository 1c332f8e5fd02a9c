// The loss of pairs, a warp for each, whose lanes sum its sequences, then one after another. The
// bits of `ref`.
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "backend/host_preference.h"

namespace ng::cuda {
namespace {

/// FP32 of all tokens.
struct TokenRows {
  const float *losses, *reference, *mask;
  float* weights;  ///< null: not wanted
  int64_t length;
};

struct LossOfPair {
  TokenRows tokens;
  double beta, label_smoothing;
  PairLoss* pairs;

  __device__ void operator()(int64_t pair, int lane) const {
    const int64_t first = 2 * pair * tokens.length;
    double sum = 0;  // of losses, reference and mask, each of the chosen and the rejected sequence
    if (lane < 6) {
      const float* row = lane < 2 ? tokens.losses : lane < 4 ? tokens.reference : tokens.mask;
      row += first + lane % 2 * tokens.length;
      for (int64_t t = 0; t < tokens.length; ++t) sum += double{row[t]};
    }
    PairOfSequences of;
    NG_UNROLL
    for (int which = 0; which < 2; ++which) {
      of.policy[which] = __shfl_sync(~0u, sum, which);
      of.reference[which] = __shfl_sync(~0u, sum, 2 + which);
      of.mask[which] = __shfl_sync(~0u, sum, 4 + which);
    }
    const PairLoss loss = loss_of_pair(of, beta, label_smoothing);
    if (lane == 0) pairs[pair] = loss;
    if (tokens.weights == nullptr) return;
    for (int64_t t = lane; t < 2 * tokens.length; t += kWarp)
      tokens.weights[first + t] = loss.weight(tokens.mask[first + t], t < tokens.length);
  }
};

struct AddPairs {
  const PairLoss* pairs;
  int64_t count;
  double* loss;
  PreferenceSums* sums;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    for (int64_t pair = 0; pair < count; ++pair) {
      if (!pairs[pair].counts) continue;
      *loss += pairs[pair].sums.loss;
      *sums += pairs[pair].sums;
    }
  }
};

}  // namespace

void perform(Stream stream, const PreferenceLoss& op, const Scratch& scratch) {
  const int64_t count = op.losses.cols;
  NG_CHECK(op.length > 0 && count % (2 * op.length) == 0, count, op.length);
  const auto row_of = [&](const ConstView& x) {
    NG_CHECK(x.rows == 1 && x.cols == count && x.is(fp32_format()), x.rows, x.cols, count);
    return reinterpret_cast<const float*>(x.data);
  };
  const float* weights = op.weights.rows > 0 ? row_of(op.weights) : nullptr;
  const TokenRows tokens{row_of(op.losses), row_of(op.reference), row_of(op.mask),
                         const_cast<float*>(weights), op.length};
  const int64_t pairs = count / (2 * op.length);
  auto* losses = scratch.take<PairLoss>(PreferenceLoss::kName, pairs);
  for_each_row(stream, pairs, LossOfPair{tokens, op.beta, op.label_smoothing, losses});
  for_each_place(stream, 1, 1, AddPairs{losses, pairs, op.loss, op.sums});
}

}  // namespace ng::cuda
