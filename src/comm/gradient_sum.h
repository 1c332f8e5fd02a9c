// Sums of gradients over ranks, by their owner. Every rule goes in the order of ranks or of the
// ring, so that no result depends on a transport. [recipes.md §4.2; errata-2, 29-31]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/gradient_pieces.h"
#include "format/codec.h"

namespace ng {

/// Decoded values of the same elements, by rank.
using ValuesByRank = std::span<const std::vector<float>>;

/// Decodes elements, and their scales where there are any: fl(fl(code·scale)·level), row by row.
class GradientDecoder {
 public:
  explicit GradientDecoder(const ElementFormat& element);
  [[nodiscard]] std::vector<float> values(const ReceivedPiece& piece) const;

 private:
  void decode_row(const std::byte* row, std::span<float> out) const;

  const ElementFormat& element_;
  std::vector<float> table_;  ///< value of each code of at most 16 bits
};

/// fl of the sum in FP64, in the order of ranks: exact there for codes of up to 16 bits that share
/// a scale, so that nothing but this rounding is lost.
[[nodiscard]] std::vector<float> exact_sum(ValuesByRank values);

/// A running value that every rank adds to and rounds to `element`, saturating: flat element i of n
/// lies in shard i / ceil(n/N), and shard j starts with rank j + 1. `first`: flat place of the
/// values in the tensor of n elements. [errata-2, 30]
[[nodiscard]] std::vector<float> ring_sum(const ElementFormat& element, ValuesByRank values,
                                          int64_t first, int64_t n);

/// fl(sum·fl(1/encode_scale)): what sums of codes stand for. `encode_scale`: that of the sum,
/// fl(N·S) for a mean of N ranks. [errata-2, 29]
[[nodiscard]] std::vector<float> mean_of_sum(std::span<const float> sum, float encode_scale);

/// How many elements of eight bits are ± the largest value of their format, without their scales.
[[nodiscard]] uint64_t count_largest(const ConstView& elements);
/// How many are ± the largest value of the format.
[[nodiscard]] uint64_t count_largest(const ElementFormat& element, std::span<const float> values);

}  // namespace ng
