// The loss of a pair, for host and device: two numbers a sequence, so one definition serves all
// backends. Everything is in FP64, tokens and pairs in their order: the same bits on any number of
// threads.
#pragma once

#include "backend/operations.h"
#include "math/weight_noise.h"

namespace ng {

/// Sums over the tokens of a pair's two sequences: [0] the chosen, [1] the rejected one.
struct PairOfSequences {
  double policy[2] = {}, reference[2] = {};  ///< of cross-entropies
  double mask[2] = {};
};

struct PairLoss {
  PreferenceSums sums;  ///< of this pair
  bool counts = false;  ///< whether it has a target; else it adds nothing
  double slope = 0;     ///< of the chosen tokens' weights, whose negative is the rejected ones'

  /// What a token's weight is.
  [[nodiscard]] NG_HD float weight(float mask, bool is_chosen) const {
    return mask * static_cast<float>(is_chosen ? slope : -slope);
  }
};

[[nodiscard]] NG_HD inline PairLoss loss_of_pair(const PairOfSequences& of, double beta,
                                                 double label_smoothing) {
  PairLoss pair{.sums = {.pairs = 1, .chosen = -of.policy[0], .rejected = -of.policy[1]},
                .counts = of.mask[0] + of.mask[1] > 0};
  PreferenceSums& sums = pair.sums;
  sums.chosen_reward = beta * (sums.chosen + of.reference[0]);
  sums.rejected_reward = beta * (sums.rejected + of.reference[1]);
  const double z = sums.chosen_reward - sums.rejected_reward;
  sums.accurate = z > 0 ? 1 : 0;
  // softplus(x) = -ln σ(-x)
  sums.loss = (1 - label_smoothing) * softplus(-z);
  if (label_smoothing > 0) sums.loss += label_smoothing * softplus(z);  // which may be ∞
  if (pair.counts) pair.slope = beta * (1 - label_smoothing - sigmoid(z));
  return pair;
}

/// For backends whose memory the host can read.
void preference_loss_on_host(const PreferenceLoss& op);

}  // namespace ng
