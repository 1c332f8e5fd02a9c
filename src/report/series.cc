#include "report/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ng::report {
namespace {

Bucket merged(const Bucket& a, const Bucket& b) {
  Bucket both = a;
  both.last = b.last;
  both.count += b.count;
  both.finite += b.finite;
  both.sum += b.sum;
  if (b.finite > 0) {
    both.low = a.finite > 0 ? std::min(a.low, b.low) : b.low;
    both.high = a.finite > 0 ? std::max(a.high, b.high) : b.high;
  }
  return both;
}

}  // namespace

double Bucket::mean() const {
  return finite > 0 ? sum / static_cast<double>(finite) : std::numeric_limits<double>::quiet_NaN();
}

Series::Series(size_t capacity) : capacity_(capacity) {
  NG_CHECK(capacity >= 2 && capacity % 2 == 0, capacity);
}

void Series::add(int64_t step, double value) {
  Bucket one{.first = step, .last = step, .count = 1};
  if (std::isfinite(value)) {
    one.finite = 1;
    one.sum = one.low = one.high = value;
  }
  if (!buckets_.empty() && buckets_.back().count < width_) {
    buckets_.back() = merged(buckets_.back(), one);
    return;
  }
  if (buckets_.size() == capacity_) halve();
  buckets_.push_back(one);
}

void Series::halve() {
  for (size_t i = 0; i < capacity_ / 2; ++i)
    buckets_[i] = merged(buckets_[2 * i], buckets_[2 * i + 1]);
  buckets_.resize(capacity_ / 2);
  width_ *= 2;
}

}  // namespace ng::report
