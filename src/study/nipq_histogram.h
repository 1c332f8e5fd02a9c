// NIPQ's noise as its code draws it: from the histogram of the true rounding error.
// [recipes.md §1.3; errata-2, 10; ECoLab-POSTECH/NIPQ]
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ng::study {

/// Rounding errors (Q(w) - w)/Δ of the unclipped weights, |w| < α, in bins over [-1/2, 1/2].
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
