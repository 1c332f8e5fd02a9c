// Dot products that figures are measured with.
#pragma once

#include <span>

#include "base/error.h"

namespace ng::study {

/// Σ a_i · b_i over two spans of one length, one FP64 chain from 0, i ascending.
[[nodiscard]] inline double dot(std::span<const float> a, std::span<const float> b) {
  NG_CHECK(a.size() == b.size(), a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace ng::study
