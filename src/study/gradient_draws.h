// How far gradients in narrow numbers are from an exact one, over many draws.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "study/mean.h"

namespace ng::study {

/// Sums over a gradient g and the exact one r, from which all figures follow; sums of several
/// matrices add.
struct Overlap {
  double rr = 0;  ///< <r, r>
  double gr = 0;  ///< <g, r>
  double gg = 0;  ///< <g, g>
  double dd = 0;  ///< ‖g - r‖²

  Overlap& operator+=(const Overlap& other);
  /// <g, r> / <r, r>: 1 where g is unbiased.
  [[nodiscard]] double projection() const { return gr / rr; }
  [[nodiscard]] double cosine() const;
  /// ‖g - r‖ / ‖r‖
  [[nodiscard]] double relative_error() const;
};

[[nodiscard]] Overlap overlap(std::span<const float> g, std::span<const float> reference);

/// Signal-to-noise ratio in dB of a relative error; NaN where nothing is lost or it is not known.
[[nodiscard]] double sqnr(double relative_error);

/// What many draws of a gradient have in common.
struct DrawnErrors {
  Mean projection, cosine, error;  ///< of the draws
  double error_of_mean = 0;        ///< of the mean of all draws
  double bias = 0;                 ///< the same without the noise that is left in that mean
};

/// Takes in draw after draw of a gradient made of several matrices.
class GradientDraws {
 public:
  /// `sizes`: of the matrices that lie in `reference` one after the other.
  GradientDraws(std::vector<float> reference, std::vector<int64_t> sizes);

  void add(std::span<const float> g);
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(overlaps_.size()); }
  [[nodiscard]] std::vector<float> mean() const;
  /// Of some matrices together. Two draws or more.
  [[nodiscard]] DrawnErrors errors(std::span<const size_t> matrices) const;
  /// Of all matrices together.
  [[nodiscard]] DrawnErrors errors() const;

 private:
  [[nodiscard]] std::vector<Overlap> overlaps_of(std::span<const float> g) const;

  std::vector<float> reference_;
  std::vector<int64_t> sizes_;
  std::vector<double> sum_;
  std::vector<std::vector<Overlap>> overlaps_;  // [draw][matrix]
};

}  // namespace ng::study
