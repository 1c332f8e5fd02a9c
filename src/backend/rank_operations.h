// Gradients of several ranks, encoded, become one: the part of their owner.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/operation_words.h"
#include "tensor/view.h"

namespace ng {

/// How the values that codes of ranks stand for are added. [recipes.md §4.2, `gradient.reduce`]
enum class RankSum : uint8_t {
  /// In FP64, in the order of ranks, rounded to FP32 once: codes that share a scale lose nothing
  /// but by this rounding.
  exact,
  /// A running value that every rank adds to, rounded to the element, saturating: flat element i
  /// of n lies in shard i / ceil(n/N), and shard j starts with rank j + 1. [errata-2, 30]
  ring,
};

/// y = fl(sum·fl(1/encode_scale)), a mean where that is fl(N·S). [errata-2, 29]
struct SumOfRanks {
  static constexpr std::string_view kName = "sum_of_ranks";
  static constexpr TimeKind kTime = TimeKind::communication;
  View y;                        ///< FP32: rows of a tensor
  std::span<const ConstView> x;  ///< these rows of every rank, by rank, as one format stores them
  RankSum rule = RankSum::exact;
  float encode_scale = 1;
  int64_t first = 0, size = 0;  ///< ring: y's first element in the whole tensor, and all elements
  uint64_t* largest = nullptr;  ///< += sums that are ± the largest of the element; null: uncounted
  void each_output(const auto& f) const { f("y", y); }
};

/// *count += codes of ± the largest value of their format, of eight bits.
struct CountLargest {
  static constexpr std::string_view kName = "count_largest";
  static constexpr TimeKind kTime = TimeKind::quantize;
  uint64_t* count = nullptr;
  ConstView codes;
  void each_output(const auto& /* f */) const {}
};

}  // namespace ng
