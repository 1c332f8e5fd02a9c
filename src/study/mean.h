// Mean of repeated draws and how well it is known.
#pragma once

#include <cmath>
#include <vector>

#include "study/grid.h"

namespace ng::study {

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

 private:
  [[nodiscard]] double count() const { return static_cast<double>(values_.size()); }
  std::vector<double> values_;
};

}  // namespace ng::study
