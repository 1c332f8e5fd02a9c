// DiffQ and NIPQ as they were published: what source 002's baselines of the same names were made
// from. [recipes.md §1.2, §1.3; errata-2, 8, 10; facebookresearch/diffq; ECoLab-POSTECH/NIPQ]
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ng::study {

/// A tensor's weights in flat groups, each with a logit l of its bit-width, in FP64:
///   b = b_min + (b_max - b_min)·σ(l);  Δ = (max w - min w)/(2^b - 1), max and min of the tensor
///   ŵ = w + Δ·n, n ~ N(0,1)/2 or U(-1/2, 1/2), given
class OriginalDiffq {
 public:
  static constexpr double kFewestBits = 2, kMostBits = 15;

  /// A logit for every `group` weights, which `group` divides; two different weights or more.
  OriginalDiffq(std::span<const float> w, std::span<const double> logits, int64_t group);

  /// The logit of a bit-width between kFewestBits and kMostBits.
  [[nodiscard]] static double logit_of(double bits);

  /// Of each group.
  [[nodiscard]] const std::vector<double>& bits() const { return bits_; }
  /// ŵ.
  [[nodiscard]] std::vector<double> noisy(std::span<const double> n) const;
  /// Weights at evaluation: the nearest of the 2^round(b) levels from min w to max w; ties to even.
  [[nodiscard]] std::vector<double> evaluated() const;

 private:
  std::vector<double> w_;
  size_t group_;
  std::vector<double> bits_, steps_;  // of each group
  double low_ = 0, range_ = 0;
};

/// NIPQ draws noise from the histogram of the true rounding error: (Q(w) - w)/Δ of the unclipped
/// weights, |w| < α, in bins over [-1/2, 1/2].
class NipqHistogram {
 public:
  static constexpr size_t kBins = 256;

  /// Q(w) = Δ·round(w/Δ), ties to even. FP64.
  NipqHistogram(std::span<const float> w, double alpha, double delta);

  [[nodiscard]] const std::array<int64_t, kBins>& counts() const { return counts_; }
  /// Unclipped weights.
  [[nodiscard]] int64_t total() const { return total_; }
  /// n: a bin with the probability of its count, by `bin` uniform in [0, 1), and a place in it, by
  /// `place` uniform in [0, 1). There must be an unclipped weight.
  [[nodiscard]] double noise(double bin, double place) const;

 private:
  std::array<int64_t, kBins> counts_{};
  int64_t total_ = 0;
};

/// Weights at evaluation: Q(w) within ±α.
[[nodiscard]] double nipq_evaluated(double w, double alpha, double delta);

}  // namespace ng::study
