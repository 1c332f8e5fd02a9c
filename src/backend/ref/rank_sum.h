// Sums of gradients over ranks, as they are defined. Every rule goes in the order of ranks or of
// the ring, so that no result depends on a transport. [recipes.md §4.2; errata-2, 29-31]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/rank_operations.h"
#include "format/table.h"

namespace ng {

/// Decoded values of the same elements, by rank.
using ValuesByRank = std::span<const std::vector<float>>;

/// fl of the sum in FP64, in the order of ranks: exact there for codes that share a scale, of as
/// many ranks as format/exact_sum.h says, so that nothing but this rounding is lost.
[[nodiscard]] std::vector<float> exact_sum(ValuesByRank values);

/// A running value that every rank adds to and rounds to `element`, saturating: flat element i of n
/// lies in shard i / ceil(n/N), and shard j starts with rank j + 1. `first`: flat place of the
/// values in the tensor of n elements. [errata-2, 30]
[[nodiscard]] std::vector<float> ring_sum(const ElementFormat& element, ValuesByRank values,
                                          int64_t first, int64_t n);

/// fl(sum·fl(1/encode_scale)): what sums of codes stand for. `encode_scale`: that of the sum,
/// fl(N·S) for a mean of N ranks. [errata-2, 29]
[[nodiscard]] std::vector<float> mean_of_sum(std::span<const float> sum, float encode_scale);

/// How many are ± the largest value of the format.
[[nodiscard]] uint64_t count_largest(const ElementFormat& element, std::span<const float> values);

namespace ref {
void perform(const SumOfRanks& op);
void perform(const CountLargest& op);
}  // namespace ref

}  // namespace ng
