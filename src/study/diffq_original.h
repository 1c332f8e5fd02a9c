// DiffQ as it was published: what source 002's baseline of the same name was made from.
// [recipes.md §1.2; errata-2, 8, 9; facebookresearch/diffq]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ng::study {

/// dL/dw and dL/dl.
struct DiffqGradients {
  std::vector<double> w;
  std::vector<double> logits;
};

/// A tensor's weights in flat groups, each with a logit l of its bit-width, in FP64:
///   b = b_min + (b_max - b_min)·σ(l);  Δ = (max w - min w)/(2^b - 1), max and min of the tensor
///   ŵ = w + Δ·n, n ~ N(0,1)/2 or U(-1/2, 1/2), given
/// Σ and extremes are taken in the order of the weights; of equal extremes the first counts.
class OriginalDiffq {
 public:
  static constexpr double kFewestBits = 2, kMostBits = 15;

  /// A logit for every `group` weights, which `group` divides; two different weights or more.
  OriginalDiffq(std::span<const float> w, std::span<const double> logits, int64_t group);

  /// The logit of a bit-width between kFewestBits and kMostBits.
  [[nodiscard]] static double logit_of(double bits);

  /// Of each group.
  [[nodiscard]] const std::vector<double>& bits() const { return bits_; }
  /// Δ of the group of weight i.
  [[nodiscard]] double step(size_t i) const { return steps_[i / group_]; }
  /// ŵ.
  [[nodiscard]] std::vector<double> noisy(std::span<const double> n) const;
  /// The range is differentiated too: with t = Σ dŵ·n/(2^b - 1), dw of the largest weight has +t,
  /// that of the smallest -t.
  [[nodiscard]] DiffqGradients gradients(std::span<const double> dw_hat,
                                         std::span<const double> n) const;

  /// The penalty, in units of 2^20 bytes: all weights in b bits; the range in two FP32 numbers; a
  /// byte that says in how many bits each group's rounded b is stored, and those.
  [[nodiscard]] double size_mb() const;
  /// Its derivative by each logit: of the weights' bits alone.
  [[nodiscard]] std::vector<double> size_gradient() const;

  /// Weights at evaluation: the nearest of the 2^round(b) levels from min w to max w; ties to even.
  [[nodiscard]] std::vector<double> evaluated() const;

 private:
  /// db/dl of a group.
  [[nodiscard]] double bits_by_logit(size_t g) const;

  std::vector<double> w_;
  size_t group_;
  std::vector<double> bits_;   // of each group
  std::vector<double> steps_;  // of each group
  size_t argmin_ = 0, argmax_ = 0;
  double range_ = 0;
};

}  // namespace ng::study
