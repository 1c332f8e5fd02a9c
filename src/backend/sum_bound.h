// How far a sum of products in another order than the defined one may lie from it: what tests and
// the self-check hold a card's matrix units to.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/operation_words.h"

namespace ng {

/// Of Σ a_k·b_k, whose products are exact in FP32. Half an FP32 unit of Σ|a||b| for each addition,
/// in either order, and for a few roundings of scales. Hopper's units for FP8 add 32 products and
/// the sum so far at a time, each cut to 13 bits of a fraction below the largest.
/// [microsoft/MMA-Sim; gpu.md §4]
[[nodiscard]] inline double sum_bound(std::span<const float> a, std::span<const float> b,
                                      SumUnits units) {
  constexpr size_t kTogether = 32;
  double all = 0, sum = 0, cut = 0;
  for (size_t begin = 0; begin < a.size(); begin += kTogether) {
    double largest = std::abs(sum);
    for (size_t k = begin; k < std::min(begin + kTogether, a.size()); ++k) {
      const double product = static_cast<double>(a[k]) * b[k];
      largest = std::max(largest, std::abs(product));
      all += std::abs(product);
      sum += product;
    }
    cut += (kTogether + 1) * 0x1p-13 * largest;
  }
  // What was cut before may have made the sum larger: twice is enough, for it is a small part.
  const double of_fp8 = units == SumUnits::fp8 ? 2 * cut : 0.0;
  return (static_cast<double>(a.size()) + 64) * 0x1p-23 * all + of_fp8;
}

}  // namespace ng
