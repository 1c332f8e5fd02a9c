// A value over the steps of a run of any length, in a bounded number of points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ng::report {

/// Some steps in a row as one point.
struct Bucket {
  int64_t first = 0, last = 0;  ///< steps
  int64_t count = 0;            ///< values, those that are not finite included
  int64_t finite = 0;           ///< values that mean, low and high are of
  double sum = 0;
  double low = 0, high = 0;

  [[nodiscard]] double mean() const;  ///< NaN where nothing was finite
  [[nodiscard]] double step() const { return static_cast<double>(first + last) / 2; }
};

/// Holds `capacity` buckets at most. All hold the same number of values but the last, which may
/// hold fewer: as many as were added one by one until the capacity is reached, then twice as many
/// each time. Two series with values at the same steps have the same buckets.
class Series {
 public:
  explicit Series(size_t capacity);

  /// Steps ascend. A value that is not finite takes its place, but no part in mean, low and high.
  void add(int64_t step, double value);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  [[nodiscard]] int64_t values_per_bucket() const { return width_; }

 private:
  void halve();

  size_t capacity_;
  int64_t width_ = 1;
  std::vector<Bucket> buckets_;
};

}  // namespace ng::report
