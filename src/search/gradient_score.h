// What a recipe leaves of a gradient, as figures that candidates are ranked by before any trains.
#pragma once

#include <span>
#include <vector>

#include "study/checkpoint_gradients.h"

namespace ng::search {

/// Errors relative to the gradient in FP32, of all linear layers of the blocks.
struct GradientScore {
  double bias = 0;   ///< that no number of draws averages away
  double noise = 0;  ///< of one draw around the mean of all
  double loss = 0;   ///< by how much the forward pass moves that of the batch, in nats

  /// Of the mean of gradients that AdamW's first moment is:
  /// sqrt(bias^2 + noise^2 (1 - beta1) / (1 + beta1)), the variance of an exponential mean of
  /// independent draws.
  [[nodiscard]] double moment_error(double beta1) const;
};

[[nodiscard]] GradientScore score_of(const study::GradientErrors& errors);

/// The scores' places, the best first. What counts is the worse of two ranks, by moment_error() and
/// by |loss|, for a better gradient of a worse function trains no better; of equal ones
/// moment_error(). What is not finite is last.
[[nodiscard]] std::vector<size_t> in_order(std::span<const GradientScore> scores, double beta1);

}  // namespace ng::search
