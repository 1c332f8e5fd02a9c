// Figures of many numbers: their mean and how well it is known, products and squares.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "study/grid.h"

namespace ng::study {

/// Mean of repeated draws.
class Mean {
 public:
  void add(double value) { values_.push_back(value); }

  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return sum / count();
  }
  /// Σ(x - mean)² / n
  [[nodiscard]] double variance() const {
    const double centre = mean();
    double sum = 0;
    for (const double value : values_) sum += (value - centre) * (value - centre);
    return sum / count();
  }
  /// Standard error; NaN where all values are equal: nothing was drawn.
  [[nodiscard]] double error() const {
    for (const double value : values_)
      if (value != values_.front()) return std::sqrt(variance() / (count() - 1));
    return kNone;
  }
  /// Mean of x².
  [[nodiscard]] double mean_square() const { return variance() + mean() * mean(); }
  [[nodiscard]] Value value(double expected = kNone) const { return {mean(), error(), expected}; }

 private:
  [[nodiscard]] double count() const { return static_cast<double>(values_.size()); }
  std::vector<double> values_;
};

/// Σ a_i · b_i over two spans of one length, one FP64 chain from 0, i ascending.
[[nodiscard]] inline double dot(std::span<const float> a, std::span<const float> b) {
  NG_CHECK(a.size() == b.size(), a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Σx², one FP64 chain from 0.
template <class Values>
[[nodiscard]] double sum_of_squares(const Values& values) {
  double sum = 0;
  for (const auto x : values) sum += static_cast<double>(x) * x;
  return sum;
}

template <class Values>
[[nodiscard]] double root_mean_square(const Values& values) {
  return std::sqrt(sum_of_squares(values) / static_cast<double>(values.size()));
}

/// -10·log10 of a relative mean squared error.
[[nodiscard]] inline double decibels(double relative_mse) { return -10 * std::log10(relative_mse); }

}  // namespace ng::study
