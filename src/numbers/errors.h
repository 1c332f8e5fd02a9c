// How far narrow numbers are from what they stand for. [formats.md §8]
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "tensor/rows.h"

namespace ng {

/// e = q - x over the finite x. Where an x became NaN or infinite so do the sums.
struct ErrorMetrics {
  uint64_t values = 0;      ///< finite x
  double mse = 0;           ///< Σe² / N
  double relative_mse = 0;  ///< Σe² / Σx²; NaN where Σx² is 0
  double sqnr_db = 0;       ///< -10·log10(relative MSE); +Inf without error, NaN where Σx² is 0
  double max_abs = 0;       ///< max |e|
  double max_relative = 0;  ///< max |e/x| over x != 0
  double underflow = 0;     ///< share of x != 0 with q = 0
  double saturation = 0;    ///< share of values counted by add_saturated()
  double bias = 0;          ///< mean(e) / mean|x|; NaN where Σ|x| is 0
};

/// FP64 sums, in the order in which values are added.
class ErrorSums {
 public:
  void add(std::span<const float> x, std::span<const float> q);
  void add(std::span<const double> x, std::span<const float> q);
  void add(std::span<const double> x, std::span<const double> q);
  void add(const ErrorSums& later);
  /// |x| / scale lay above the largest element before rounding: OperandStats::saturated.
  void add_saturated(uint64_t count) { saturated_ += count; }
  [[nodiscard]] ErrorMetrics metrics() const;

 private:
  template <class X, class Q>
  void add_values(std::span<const X> x, std::span<const Q> q);

  uint64_t values_ = 0;
  uint64_t nonzero_ = 0;
  uint64_t flushed_ = 0;
  uint64_t saturated_ = 0;
  double error_squares_ = 0;
  double squares_ = 0;
  double errors_ = 0;
  double magnitudes_ = 0;
  double max_abs_ = 0;
  double max_relative_ = 0;
};

/// Sums over two matrices of one shape; the bits do not depend on the thread count.
[[nodiscard]] ErrorSums error_sums(Rows<const float> x, Rows<const float> q, Threads threads);

}  // namespace ng
