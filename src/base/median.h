// The middle of measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace ng {

/// Of at least one value: the middle one, or the mean of the two in the middle.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace ng
