// How far a sum of products in another order than the defined one may lie from it: what tests and
// the self-check hold a card's matrix units to.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "format/operand.h"

namespace ng {

/// Whether units for FP8 may add the products of such operands.
[[nodiscard]] inline bool may_be_fp8(const Operand& a, const Operand& b) {
  const auto is_narrow = [](const ElementFormat& element) {
    return element.kind == ElementKind::floating && element.bits <= 8;
  };
  return is_narrow(*a.element) && is_narrow(*b.element);
}

/// Of Σ a_k·b_k, whose products are exact in FP32. Half an FP32 unit of Σ|a||b| for each addition,
/// in either order, and for a few roundings of scales. `is_fp8`: added as Hopper's units for FP8
/// do, 32 products and the sum so far at a time, each cut to 13 bits of a fraction below the
/// largest. [microsoft/MMA-Sim; gpu.md §4]
[[nodiscard]] inline double sum_bound(std::span<const float> a, std::span<const float> b,
                                      bool is_fp8) {
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
  return (static_cast<double>(a.size()) + 64) * 0x1p-23 * all + (is_fp8 ? 2 * cut : 0.0);
}

}  // namespace ng
